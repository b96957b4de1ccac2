import type { Peer } from './identity.ts'
import type { ClusterFacts, PodFacts, Protocol } from './model.ts'
import type { createPeers } from './peers.ts'

interface PortName {
  readonly name: string
  readonly protocol: Protocol
}

/**
 * Which numbers a port's name stands for. On ingress it is the pod's own; on egress Cilium resolves it for an
 * identity, so every pod with the same labels lends its number.
 */
export function createPortNames(facts: ClusterFacts, peers: ReturnType<typeof createPeers>) {
  const byIdentity = new Map<number, PodFacts[]>()
  for (const pod of facts.pods) {
    if (pod.hostNetwork === true || pod.namedPorts === undefined) continue
    const { id } = peers.ofPod(pod).identity
    byIdentity.set(id, [...(byIdentity.get(id) ?? []), pod])
  }
  return {
    ofPod: ({ pod }: Peer, wanted: PortName): readonly number[] => (pod ? numbers([pod], wanted) : []),
    ofIdentity: ({ identity }: Peer, wanted: PortName): readonly number[] =>
      numbers(byIdentity.get(identity.id) ?? [], wanted),
  }
}
export type PortNames = ReturnType<typeof createPortNames>

const numbers = (pods: readonly PodFacts[], { name, protocol }: PortName): number[] =>
  pods.flatMap(({ namedPorts = [] }) =>
    namedPorts.filter((port) => port.name === name && port.protocol === protocol).map(({ port }) => port),
  )
