import type { Environment } from '../environment/schema.ts'

type Network = Environment['infra']['network']

/**
 * Network address, broadcast address, and the two addresses per node that Cilium uses for its router and
 * health endpoint.
 */
const RESERVED_ON_NODE = 4
/** Azure reserves the first four addresses and the last address of a subnet. */
const RESERVED_IN_SUBNET = 5
const IPV4_BITS = 32

/** How many pods of a node can get an address from its range. */
export function addressesPerNode({ nodePodBits }: Network): number {
  return 2 ** (IPV4_BITS - nodePodBits) - RESERVED_ON_NODE
}

interface AddressedNodes {
  readonly name: string
  readonly key: string
  /** An upper bound: nodes without sandboxes take addresses from the same ranges. */
  readonly nodes: number
}

/** How many nodes the ranges can hold. An IPv6 range is never the limit. */
export function addressedNodes({ podCidrs, nodeCidrs, nodePodBits }: Network): AddressedNodes[] {
  const pods = prefixesOf(podCidrs).map((prefix) => (prefix > nodePodBits ? 0 : 2 ** (nodePodBits - prefix)))
  const nodes = prefixesOf(nodeCidrs).map((prefix) =>
    Math.max(0, 2 ** (IPV4_BITS - prefix) - RESERVED_IN_SUBNET),
  )
  const named = [
    { name: 'range of pod addresses', key: 'infra.network.podCidrs', counts: pods },
    { name: 'range of node addresses', key: 'infra.network.nodeCidrs', counts: nodes },
  ]
  return named
    .filter(({ counts }) => counts.length > 0)
    .map(({ name, key, counts }) => ({ name, key, nodes: counts.reduce((sum, count) => sum + count, 0) }))
}

const prefixesOf = (cidrs: readonly string[]) =>
  cidrs.filter((cidr) => !cidr.includes(':')).map((cidr) => Number(cidr.split('/')[1]))
