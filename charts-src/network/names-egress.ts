import type { Slice } from '../../contracts/names.ts'
import type {
  CiliumNetworkPolicySpecEgress,
  CiliumNetworkPolicySpecEgressToFqdNs,
} from '../imports/cilium.js'
import { workloads } from '../workloads.ts'
import { endpoint, tcpPorts } from './policy-objects.ts'

/** Names with the same ports. A wildcard covers one label, as in the policy file. */
export interface NamesAtPorts {
  readonly hosts: readonly string[]
  readonly ports: readonly number[]
}

/**
 * Egress rules for names: DNS lookups of exactly these names at the cluster's resolver, and connections to
 * the resolved addresses. Without the lookup rule Cilium learns no addresses. A `*` in it would allow DNS
 * exfiltration.
 */
export function egressToNames(
  slice: Slice,
  groups: readonly NamesAtPorts[],
): CiliumNetworkPolicySpecEgress[] {
  const connections = groups.filter(({ hosts }) => hosts.length > 0)
  const lookedUp = unique(groups.flatMap(({ hosts }) => hosts))
  if (lookedUp.length === 0) return []
  return [
    lookups(slice, lookedUp),
    ...connections
      .filter(({ ports }) => ports.length > 0)
      .map(({ hosts, ports }) => toNames(unique(hosts), ports)),
  ]
}

const toNames = (hosts: readonly string[], ports: readonly number[]): CiliumNetworkPolicySpecEgress => ({
  toFqdNs: hosts.map(nameSelector),
  toPorts: [tcpPorts(...ports)],
})

const lookups = (slice: Slice, hosts: readonly string[]): CiliumNetworkPolicySpecEgress => ({
  toEndpoints: [endpoint(workloads(slice).clusterDns)],
  toPorts: [
    {
      ports: [
        { port: '53', protocol: 'UDP' },
        { port: '53', protocol: 'TCP' },
      ],
      rules: { dns: hosts.map(nameSelector) },
    },
  ],
})

const nameSelector = (host: string): CiliumNetworkPolicySpecEgressToFqdNs =>
  host.includes('*') ? { matchPattern: host } : { matchName: host }

const unique = (hosts: readonly string[]) => [...new Set(hosts)].sort()
