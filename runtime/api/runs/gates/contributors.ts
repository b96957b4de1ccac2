import { present } from '../../../kit/present.ts'
import type { ContributionRow } from '../../../store/contributions.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import type { Caller } from '../service.ts'

type Contribution = { readonly runId: string; readonly how: ContributionRow['how']; readonly at: string }

/** Records that the caller determined what the run works on, in the transaction that does the work. */
export const recordContribution = (
  tx: Transaction,
  { owner: person, apiKeyId: keyId }: Caller,
  contribution: Contribution,
): Promise<void> => tx.insertContribution({ ...contribution, person, ...present({ keyId }) })

type Start = { readonly runId: string; readonly at: string; readonly from: RunRow | undefined }

/** A run that begins from another one continues the work of everybody who contributed to that run. */
export async function recordStart(
  tx: Transaction,
  caller: Caller,
  { runId, at, from }: Start,
): Promise<void> {
  await recordContribution(tx, caller, { runId, how: 'start', at })
  if (!from) return
  const how = 'source'
  await tx.insertContribution({ runId, person: from.owner, how, at })
  for (const { person, keyId } of await tx.listContributions(from.id))
    await tx.insertContribution({ runId, person, how, at, ...present({ keyId }) })
}

/** The owners of everybody who contributed to a run, and how. This includes the creators of the API keys that were used. */
export async function contributorsOf(tx: Transaction, run: RunRow): Promise<ReadonlyMap<string, string>> {
  const people = new Map<string, string>([[run.owner, 'owns the run']])
  const add = (person: string, how: string) => people.has(person) || people.set(person, how)
  const keys = new Set<string>()
  for (const { person, keyId, how } of await tx.listContributions(run.id)) {
    add(person, WORDS[how])
    if (keyId !== undefined) keys.add(keyId)
  }
  // A set iterates over values that are added during the iteration: the key that created a key is looked at too.
  for (const id of keys) {
    const key = await tx.readApiKeyById(id)
    add(key?.owner ?? id, `owns the API key ${id}, which was used`)
    // The first key of a store has no creator, and neither has a key whose creator was erased.
    add(key?.createdBy ?? 'an unknown person', `created the API key ${id}, which was used`)
    if (key?.createdWith !== undefined) keys.add(key.createdWith)
  }
  return people
}

const WORDS: Readonly<Record<ContributionRow['how'], string>> = {
  start: 'started the run',
  upload: 'uploaded its workspace',
  turn: 'sent a turn',
  command: 'ran a command in it',
  file: 'changed a file in it',
  answer: 'answered a question of its agent',
  source: 'contributed to a run from which it began',
}
