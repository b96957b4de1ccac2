import type { Address } from './address.ts'
import type { ClusterFacts, Entity, PodFacts } from './model.ts'
import type { SourcedLabels } from './selector.ts'

/** What a policy can tell about one end: pods with the same labels are one identity. */
export interface Identity {
  /** Unique for its labels. */
  readonly id: number
  readonly labels: SourcedLabels
}

/** Names that Cilium gives to labels of its own. */
export const NAMESPACE_KEY = 'io.kubernetes.pod.namespace'
export const NAMESPACE_LABELS_PREFIX = 'io.cilium.k8s.namespace.labels'
export const CLUSTER_KEY = 'io.cilium.k8s.policy.cluster'
const SERVICE_ACCOUNT_KEY = 'io.cilium.k8s.policy.serviceaccount'
const CLUSTER_NAME = 'default'

/**
 * Labels that Cilium's defaults keep out of an identity (pkg/labelsfilter/filter.go of 1.20): a selector that names
 * one of them matches no pod, whatever the pod carries.
 */
const LEFT_OUT = [
  /^io\.kubernetes/,
  /^kubernetes\.io/,
  /^statefulset\.kubernetes\.io\/pod-name/,
  /^apps\.kubernetes\.io\/pod-index/,
  /^batch\.kubernetes\.io\/job-completion-index/,
  /^batch\.kubernetes\.io\/controller-uid/,
  /^.*beta\.kubernetes\.io/,
  /^k8s\.io/,
  /^pod-template-generation/,
  /^pod-template-hash/,
  /^controller-revision-hash/,
  /^controller-uid/,
  /^annotation.*/,
  /^etcd_node/,
  /^topology\.kubernetes\.io/,
]

/** Whether Cilium keeps a label of a pod, so that policies can select by it. */
export const isIdentityLabel = (key: string): boolean => !LEFT_OUT.some((pattern) => pattern.test(key))

/** Interns identities, so that what a selector selects is computed once for all pods that are alike. */
export function createIdentities(facts: ClusterFacts) {
  const known = new Map<string, Identity>()
  const reserved = new Map<string, Identity>()
  const namespaces = new Map(facts.namespaces.map(({ name, labels }) => [name, labels ?? {}]))

  function intern(labels: SourcedLabels): Identity {
    const key = JSON.stringify([...labels].sort(([a], [b]) => (a < b ? -1 : 1)))
    const found = known.get(key)
    if (found) return found
    const identity = { id: known.size, labels }
    known.set(key, identity)
    return identity
  }

  return {
    /** The identity of a pod with a network of its own. */
    ofPod: (pod: PodFacts): Identity => intern(podLabels(pod, namespaces.get(pod.namespace) ?? {})),
    /** The identity of what Cilium reserves a name for; several where an address is more than one. */
    ofReserved(...entities: readonly Entity[]): Identity {
      const key = entities.join(' ')
      const identity =
        reserved.get(key) ?? intern(new Map(entities.map((entity) => [`reserved:${entity}`, ''])))
      reserved.set(key, identity)
      return identity
    },
  }
}
export type Identities = ReturnType<typeof createIdentities>

function podLabels(pod: PodFacts, ofNamespace: Readonly<Record<string, string>>): SourcedLabels {
  const own = Object.entries(pod.labels).filter(([key]) => isIdentityLabel(key))
  // The API server writes this label on every namespace.
  const namespaceLabels = { ...ofNamespace, 'kubernetes.io/metadata.name': pod.namespace }
  return new Map([
    ...own.map(([key, value]) => [`k8s:${key}`, value] as const),
    ...Object.entries(namespaceLabels).map(
      ([key, value]) => [`k8s:${NAMESPACE_LABELS_PREFIX}.${key}`, value] as const,
    ),
    [`k8s:${NAMESPACE_KEY}`, pod.namespace],
    [`k8s:${CLUSTER_KEY}`, CLUSTER_NAME],
    [`k8s:${SERVICE_ACCOUNT_KEY}`, pod.serviceAccount ?? 'default'],
  ])
}

/** One end of a connection as policies see it. */
export interface Peer {
  readonly identity: Identity
  /** Only where ranges count: a pod and a node have identities, which no range selects. */
  readonly address?: Address
  /** Names that the agent knows for the address. */
  readonly names: readonly string[]
  /** Set for a pod with a network of its own: its own policies count too. */
  readonly pod?: PodFacts
  /** Set for a node and for pods in its network. */
  readonly node?: string
  /** How to call it in a sentence. */
  readonly title: string
}
