import { type RunPhase, SETUP_LIMITS } from '../../../contracts/policy.ts'
import type { RunRow } from '../../store/store.ts'

/**
 * The phase of a sandbox, which decides what its commands reach. It is `setup` only in the sandbox in which the setup of the
 * run began, until the setup ends, and for 30 minutes at the most.
 */
export function phaseOf({ setup }: Pick<RunRow, 'setup'>, generation: number, now: Date): RunPhase {
  if (setup?.generation !== generation || setup.endedAt !== undefined) return 'work'
  return now.getTime() < setupEndsAt(setup) ? 'setup' : 'work'
}

/** When the setup of a run ends at the latest, in ms. */
export const setupEndsAt = ({ startedAt }: { readonly startedAt: string }): number =>
  Date.parse(startedAt) + SETUP_LIMITS.maxMs
