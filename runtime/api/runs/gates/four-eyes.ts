import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import type { Caller } from '../service.ts'
import { contributorsOf } from './contributors.ts'

export const needsAnotherPerson = ({ settings }: Pick<RunRow, 'settings'>): boolean =>
  settings.approvals?.not_by_owner === true

/** What another person does instead, in the words of a refusal. */
interface Act {
  readonly verb: string
  readonly rule: string
  readonly who: string
}

const APPROVE: Act = {
  verb: 'approve it',
  rule: 'that another person approves its requests',
  who: 'An approver or operator who is signed in and did not contribute to the run can approve it. You can deny it.',
}

const PUSH: Act = {
  verb: 'push its result',
  rule: 'that another person pushes its result',
  who: 'An operator who is signed in and did not contribute to the run can push it.',
}

/**
 * Refuses an approval that is not by a signed-in person without a part in the run. The settings of a run are fixed when it
 * starts, so a later change of the policy does not lift this.
 */
export const requireAnotherPerson = (tx: Transaction, run: RunRow, caller: Caller): Promise<void> =>
  requireUninvolved(tx, run, { caller, act: APPROVE })

/** The same for a push of the result, which people see as the work of the run. */
export const requireAnotherToPush = (tx: Transaction, run: RunRow, caller: Caller): Promise<void> =>
  requireUninvolved(tx, run, { caller, act: PUSH })

async function requireUninvolved(
  tx: Transaction,
  run: RunRow,
  { caller, act }: { readonly caller: Caller; readonly act: Act },
): Promise<void> {
  if (!needsAnotherPerson(run)) return
  const { owner, signedInAt: issuer } = caller
  if (issuer === undefined) throw refused(act, caller.apiKeyId === undefined ? noPerson(act) : noKey(act))
  const people = await contributorsOf(tx, run)
  const own = people.get(owner)
  if (own !== undefined) throw refused(act, `You cannot ${act.verb}, because ${owner} ${own}.`)
  const [unknown] = [...people].filter(([person]) => !person.startsWith(`${issuer}#`))
  if (unknown)
    throw refused(
      act,
      `Nobody can ${act.verb}, because ${unknown[0]} ${unknown[1]}, and is not a person who signed in at ${issuer}. The service cannot know that this is not you. Start such runs signed in, or with a key that a signed-in person created for the own runs.`,
    )
}

const noKey = ({ verb }: Act) =>
  `An API key cannot ${verb}. Sign in as a person with "agentweaver login --url URL", at a service that has sign-in.`
const noPerson = ({ verb }: Act) => `The access token of a program cannot ${verb}.`

const refused = ({ rule, who }: Act, why: string): SandboxError =>
  new SandboxError(
    'forbidden',
    `The settings of this run require ${rule} (approvals: not_by_owner). ${why} ${who}`,
  )
