import type { BackendWarning } from './executor.ts'

const NETWORK: BackendWarning = {
  category: 'network-unrestricted',
  message: 'a command that may use the network reaches all that this machine reaches: no allowlist holds it',
}

/** The warnings of a backend that isolates but cannot keep some promises. */
export function isolationWarnings(weakerLimits: readonly string[]): BackendWarning[] {
  return [NETWORK, ...weakerLimits.map((message) => ({ category: 'weaker-limits' as const, message }))]
}
