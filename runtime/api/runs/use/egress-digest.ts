import { createHash } from 'node:crypto'
import { canonicalJson } from '../../../kit/canonical-json.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunNetworks } from './run-networks.ts'

/**
 * Digest of what the commands of a run may reach, with the hosts that people allowed. Undefined if the service has no egress
 * proxy.
 */
export function egressDigestOf(
  networks: Pick<RunNetworks, 'destinationsOf'> | undefined,
  run: Pick<RunRow, 'kind' | 'settings' | 'allowedHosts'>,
): string | undefined {
  if (!networks) return undefined
  const destinations = networks.destinationsOf(run, run.kind) ?? null
  return createHash('sha256').update(canonicalJson(destinations)).digest('hex')
}
