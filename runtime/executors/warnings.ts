import type { BackendWarning } from './executor.ts'
import { COMMAND_LIMITS } from './process/command-supervisor.ts'

const NETWORK: BackendWarning = {
  category: 'network-unrestricted',
  message:
    "a command that may use the network has this machine's: it reaches what this machine reaches, services on its loopback and abstract sockets too; no allowlist holds it",
}

/** The kernel exempts uid 0 from RLIMIT_NPROC, in every namespace. */
export const UNBOUNDED_PROCESSES = `a command is not held to ${COMMAND_LIMITS.processes} processes, since the service runs as root`

/** Returns the warnings of a backend that isolates but cannot give some guarantees. */
export function isolationWarnings(weakerLimits: readonly string[]): BackendWarning[] {
  return [NETWORK, ...weakerLimits.map((message) => ({ category: 'weaker-limits' as const, message }))]
}
