import type { Environment } from '../environment/schema.ts'

type Network = Environment['infra']['network']

/** First, last, and what Cilium keeps for itself on each node: the router's and the health endpoint's. */
const RESERVED_ON_NODE = 4
/** Azure keeps the first four addresses of a subnet and the last. */
const RESERVED_IN_SUBNET = 5
const IPV4_BITS = 32

/** How many pods of a node can have an address of its range. */
export function addressesPerNode({ nodePodBits }: Network): number {
  return 2 ** (IPV4_BITS - nodePodBits) - RESERVED_ON_NODE
}

interface AddressedNodes {
  readonly name: string
  readonly key: string
  /** At most: nodes that hold no sandboxes take theirs from the same ranges. */
  readonly nodes: number
}

/** How many nodes the ranges have room for. A range of IPv6 is never the narrow one. */
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
