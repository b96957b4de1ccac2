import { names, type Slice } from '../../contracts/names.ts'
import type { KubeObject } from '../kube-object.ts'
import { PART_OF_LABEL } from '../workloads.ts'

type Labels = Readonly<Record<string, string>>

/** Pods of one namespace, selected by labels that the pods have from creation. */
export interface PodsOf {
  readonly namespace: string
  readonly labels: Labels
}

/** Namespace and name of a policy. */
export interface PolicyPlace {
  readonly slice: Slice
  readonly namespace: string
  readonly name: string
}

interface NetworkPolicySpec {
  readonly podSelector: object
  readonly ingress?: readonly object[]
  readonly egress?: readonly object[]
}

/** A NetworkPolicy. `policyTypes` defaults to the directions that have rules. */
export function networkPolicy(
  place: PolicyPlace,
  spec: NetworkPolicySpec,
  policyTypes: readonly ('Ingress' | 'Egress')[] = typesOf(spec),
): KubeObject {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadata(place),
    spec: { ...spec, policyTypes },
  }
}

/** A CiliumNetworkPolicy, for names, entities and deny rules, which a NetworkPolicy cannot express. */
export function ciliumPolicy(place: PolicyPlace, spec: Readonly<Record<string, unknown>>): KubeObject {
  return { apiVersion: 'cilium.io/v2', kind: 'CiliumNetworkPolicy', metadata: metadata(place), spec }
}

const metadata = ({ slice, namespace, name }: PolicyPlace) => ({
  name,
  namespace,
  labels: { [PART_OF_LABEL]: names(slice).prefix },
})

const typesOf = ({ ingress, egress }: NetworkPolicySpec) => [
  ...(ingress ? ['Ingress' as const] : []),
  ...(egress ? ['Egress' as const] : []),
]

/** Pods of another namespace as a NetworkPolicy peer. */
export const podPeer = ({ namespace, labels }: PodsOf) => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
  podSelector: { matchLabels: labels },
})

/** Every pod of a namespace as a NetworkPolicy peer. */
export const namespacePeer = (namespace: string) => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
})

/** Pods as a Cilium endpoint selector; without labels, every pod of the namespace. */
export const endpoint = ({ namespace, labels }: PodsOf) => ({
  matchLabels: {
    'k8s:io.kubernetes.pod.namespace': namespace,
    ...Object.fromEntries(Object.entries(labels).map(([key, value]) => [`k8s:${key}`, value])),
  },
})

export const tcp = (port: number) => ({ protocol: 'TCP', port })

/** TCP ports in Cilium's format, which has them as strings. */
export const tcpPorts = (...ports: readonly number[]) => ({
  ports: ports.map((port) => ({ port: String(port), protocol: 'TCP' })),
})
