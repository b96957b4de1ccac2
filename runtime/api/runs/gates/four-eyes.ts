import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import type { Caller } from '../service.ts'
import { contributorsOf } from './contributors.ts'

export const needsAnotherPerson = ({ settings }: Pick<RunRow, 'settings'>): boolean =>
  settings.approvals?.not_by_owner === true

/**
 * Refuses an approval that is not by a signed-in person without a part in the run. The settings of a run are fixed when it
 * starts, so a later change of the policy does not lift this.
 */
export async function requireAnotherPerson(tx: Transaction, run: RunRow, caller: Caller): Promise<void> {
  if (!needsAnotherPerson(run)) return
  const { owner, signedInAt: issuer } = caller
  if (issuer === undefined) throw refused(caller.apiKeyId === undefined ? NO_PERSON : NO_KEY)
  const people = await contributorsOf(tx, run)
  const own = people.get(owner)
  if (own !== undefined) throw refused(`You cannot approve it, because ${owner} ${own}.`)
  const [unknown] = [...people].filter(([person]) => !person.startsWith(`${issuer}#`))
  if (unknown)
    throw refused(
      `Nobody can approve it, because ${unknown[0]} ${unknown[1]}, and is not a person who signed in at ${issuer}. The service cannot know that this is not you. Start such runs signed in, or with a key that a signed-in person created for the own runs.`,
    )
}

const NO_KEY =
  'An API key cannot approve it. Sign in as a person with "agentweaver login --url URL", at a service that has sign-in.'
const NO_PERSON = 'The access token of a program cannot approve it.'

const refused = (why: string): SandboxError =>
  new SandboxError(
    'forbidden',
    `The settings of this run require that another person approves its requests (approvals: not_by_owner). ${why} An approver or operator who is signed in and did not contribute to the run can approve it. You can deny it.`,
  )
