import type { BackendWarning } from './executor.ts'
import { COMMAND_LIMITS } from './process/command-supervisor.ts'

/** The kernel exempts uid 0 from RLIMIT_NPROC, in every namespace. */
export const UNBOUNDED_PROCESSES = `commands are not limited to ${COMMAND_LIMITS.processes} processes, because the service runs as root`

/** Returns the warnings of a backend that isolates but cannot give some guarantees. */
export function isolationWarnings(weakerLimits: readonly string[]): BackendWarning[] {
  return weakerLimits.map((message) => ({ category: 'weaker-limits' as const, message }))
}
