import type { PushCommand, PushFault } from './push-list.ts'

export interface PushRules {
  readonly runId: string
  /** The commit that this run pushed to a ref last. */
  readonly lastPush: (ref: string) => string | undefined
}

/** Prefix of the branches that a run may push. */
export const branchesOf = (runId: string): string => `refs/heads/agentweaver/${runId}/`

/** The name below the prefix: components as git and file systems read them alike. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}){0,7}$/
const ZERO = /^0+$/

/** Returns why a push is refused, or undefined. A run creates branches below its own prefix, and continues only those. */
export function judgePush(commands: readonly PushCommand[], rules: PushRules): PushFault | undefined {
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

function commandFault({ oldId, newId, ref }: PushCommand, { runId, lastPush }: PushRules) {
  const prefix = branchesOf(runId)
  const name = ref.startsWith(prefix) ? ref.slice(prefix.length) : undefined
  if (name === undefined)
    return {
      reason: `this run may push only to branches below ${prefix}, not to ${ref}`,
      remedy: pushTo(prefix),
    }
  if (!NAME.test(name) || name.includes('..') || /\.(?:lock)?(?:\/|$)/.test(name))
    return { reason: `the branch name ${JSON.stringify(name)} is not allowed`, remedy: pushTo(prefix) }
  if (ZERO.test(newId))
    return { reason: `this run may not delete ${ref}`, remedy: 'Ask a person to delete the branch.' }
  if (!ZERO.test(oldId) && oldId !== lastPush(ref))
    return {
      reason: `${ref} has commits that this sandbox did not push`,
      remedy: `Push to a new branch: git push origin HEAD:${prefix}NAME`,
    }
  return undefined
}

const pushTo = (prefix: string) =>
  `Push with: git push origin HEAD:${prefix}NAME, with a name of letters, digits, "-", "_" and ".".`
