import type { Construct } from 'constructs'
import { names, type Slice } from '../../contracts/names.ts'
import {
  CiliumNetworkPolicy,
  type CiliumNetworkPolicySpec,
  type CiliumNetworkPolicySpecEgressDenyToPorts,
  type CiliumNetworkPolicySpecEgressToEndpoints,
} from '../imports/cilium.js'
import {
  IntOrString,
  KubeNetworkPolicy,
  type NetworkPolicyPeer,
  type NetworkPolicyPort,
  type NetworkPolicySpec,
} from '../imports/k8s.js'
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

/** Adds a NetworkPolicy. `policyTypes` defaults to the directions that have rules. */
export function addNetworkPolicy(scope: Construct, place: PolicyPlace, spec: NetworkPolicySpec): void {
  new KubeNetworkPolicy(scope, idOf(place), {
    metadata: metadata(place),
    spec: { ...spec, policyTypes: spec.policyTypes ?? typesOf(spec) },
  })
}

/** Adds a CiliumNetworkPolicy, for names, entities and deny rules, which a NetworkPolicy cannot express. */
export function addCiliumPolicy(scope: Construct, place: PolicyPlace, spec: CiliumNetworkPolicySpec): void {
  new CiliumNetworkPolicy(scope, idOf(place), { metadata: metadata(place), spec })
}

const idOf = ({ namespace, name }: PolicyPlace) => `${namespace} ${name}`

const metadata = ({ slice, namespace, name }: PolicyPlace) => ({
  name,
  namespace,
  labels: { [PART_OF_LABEL]: names(slice).prefix },
})

const typesOf = ({ ingress, egress }: NetworkPolicySpec) => [
  ...(ingress ? ['Ingress'] : []),
  ...(egress ? ['Egress'] : []),
]

/** Pods of another namespace as a NetworkPolicy peer. */
export const podPeer = ({ namespace, labels }: PodsOf): NetworkPolicyPeer => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
  podSelector: { matchLabels: labels },
})

/** Every pod of a namespace as a NetworkPolicy peer. */
export const namespacePeer = (namespace: string): NetworkPolicyPeer => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
})

/** Pods as a Cilium endpoint selector; without labels, every pod of the namespace. */
export const endpoint = ({ namespace, labels }: PodsOf): CiliumNetworkPolicySpecEgressToEndpoints => ({
  matchLabels: {
    'k8s:io.kubernetes.pod.namespace': namespace,
    ...Object.fromEntries(Object.entries(labels).map(([key, value]) => [`k8s:${key}`, value])),
  },
})

export const tcp = (port: number): NetworkPolicyPort => ({
  protocol: 'TCP',
  port: IntOrString.fromNumber(port),
})

/** TCP ports in Cilium's format, which has them as strings. */
export const tcpPorts = (...ports: readonly number[]): CiliumNetworkPolicySpecEgressDenyToPorts => ({
  ports: ports.map((port) => ({ port: String(port), protocol: 'TCP' })),
})
