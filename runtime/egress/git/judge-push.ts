import type { EgressPush } from '../../../contracts/egress.ts'
import { PUSH_BRANCH } from '../../../contracts/push.ts'
import type { PushCommand, PushFault } from './push-list.ts'

export interface PushRules {
  readonly runId: string
  readonly rule: EgressPush['rule']
  /** A person pushes this commit. Then nothing else is allowed. */
  readonly grant?: EgressPush['grant']
  /** Whether this run pushed the commit to the ref. */
  readonly hasPushed: (ref: string, commit: string) => boolean
}

/** Prefix of the branches that a run may push. */
export const branchesOf = (runId: string): string => `refs/heads/agentweaver/${runId}/`

const ZERO = /^0+$/

/**
 * Returns why a push is refused, or undefined. A run creates branches below its own prefix if its settings allow that, and
 * continues only those. A sandbox with a grant does what the grant names.
 */
export function judgePush(commands: readonly PushCommand[], rules: PushRules): PushFault | undefined {
  const ruled = rules.grant ? undefined : RULED[rules.rule](rules)
  if (ruled) return ruled
  const seen = new Set<string>()
  for (const command of commands) {
    const fault = seen.has(command.ref)
      ? { reason: `it updates ${command.ref} twice`, remedy: 'Push each branch once.' }
      : commandFault(command, rules)
    if (fault) return fault
    seen.add(command.ref)
  }
  return undefined
}

const RULED: Readonly<Record<EgressPush['rule'], (rules: PushRules) => PushFault | undefined>> = {
  allow: () => undefined,
  ask: ({ runId }) => ({
    reason: 'a person pushes the results of this run (results.push: ask)',
    remedy: `Commit the work and end. A person then runs: agentweaver push ${runId} --branch NAME. Runs push by themselves if the settings of the service and of the run have results: {push: allow}.`,
  }),
  deny: () => ({
    reason: 'the settings of this run forbid every push (results.push: deny)',
    remedy: 'Commit the work and end. A person can review it with agentweaver diff and agentweaver fetch.',
  }),
}

const commandFault = (command: PushCommand, rules: PushRules): PushFault | undefined =>
  rules.grant
    ? (grantFault(command, rules.grant) ?? continuationFault(command, rules))
    : (nameFault(command, rules) ?? continuationFault(command, rules))

function grantFault(
  { newId, ref }: PushCommand,
  grant: NonNullable<EgressPush['grant']>,
): PushFault | undefined {
  if (ref === grant.ref && newId === grant.commit) return undefined
  return {
    reason: `this sandbox may push only the commit ${grant.commit} to ${grant.ref}`,
    remedy: 'Push another branch with another: agentweaver push RUN --branch NAME.',
  }
}

function nameFault({ newId, ref }: PushCommand, { runId }: PushRules): PushFault | undefined {
  const prefix = branchesOf(runId)
  const name = ref.startsWith(prefix) ? ref.slice(prefix.length) : undefined
  if (name === undefined)
    return {
      reason: `this run may push only to branches below ${prefix}, not to ${ref}`,
      remedy: pushTo(prefix),
    }
  if (!PUSH_BRANCH.test(name))
    return { reason: `the branch name ${JSON.stringify(name)} is not allowed`, remedy: pushTo(prefix) }
  if (ZERO.test(newId))
    return { reason: `this run may not delete ${ref}`, remedy: 'Ask a person to delete the branch.' }
  return undefined
}

function continuationFault({ oldId, ref }: PushCommand, { hasPushed }: PushRules): PushFault | undefined {
  if (ZERO.test(oldId) || hasPushed(ref, oldId)) return undefined
  return {
    reason: `${ref} has commits that this run did not push`,
    remedy: 'Push to a branch with a new name.',
  }
}

const pushTo = (prefix: string) =>
  `Push with: git push origin HEAD:${prefix}NAME, with a name of letters, digits, "-", "_" and ".".`
