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
export const CILIUM_PREFIX = 'io.cilium.k8s'
export const NAMESPACE_KEY = 'io.kubernetes.pod.namespace'
export const NAMESPACE_LABELS_PREFIX = 'io.cilium.k8s.namespace.labels'
export const CLUSTER_KEY = 'io.cilium.k8s.policy.cluster'
const SERVICE_ACCOUNT_KEY = 'io.cilium.k8s.policy.serviceaccount'
const CLUSTER_NAME = 'default'

/**
 * Labels that Cilium's defaults keep in an identity, and labels that they leave out (pkg/labelsfilter/filter.go of
 * 1.20). A selector that names a label left out matches no pod, whatever the pod carries.
 */
const KEPT = [
  NAMESPACE_KEY,
  NAMESPACE_LABELS_PREFIX,
  CLUSTER_KEY,
  SERVICE_ACCOUNT_KEY,
  'app.kubernetes.io',
] as const
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

/** Where both lists match, Cilium keeps the label if the match of `KEPT` is the longer one. */
function isIdentityLabel(key: string): boolean {
  const leftOut = LEFT_OUT.flatMap((pattern) => pattern.exec(key)?.[0].length ?? [])
  if (leftOut.length === 0) return true
  return KEPT.some((prefix) => key.startsWith(prefix) && prefix.length > Math.min(...leftOut))
}

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
  // Cilium drops labels under its own prefix from a pod: otherwise a pod could claim to be in another namespace.
  const own = Object.entries(pod.labels).filter(([key]) => !key.startsWith(CILIUM_PREFIX))
  // The API server writes this label on every namespace.
  const namespaceLabels = { ...ofNamespace, 'kubernetes.io/metadata.name': pod.namespace }
  const all: (readonly [string, string])[] = [
    ...own,
    ...Object.entries(namespaceLabels).map(
      ([key, value]) => [`${NAMESPACE_LABELS_PREFIX}.${key}`, value] as const,
    ),
    [NAMESPACE_KEY, pod.namespace],
    [CLUSTER_KEY, CLUSTER_NAME],
    [SERVICE_ACCOUNT_KEY, pod.serviceAccount ?? 'default'],
  ]
  return new Map(
    all.filter(([key]) => isIdentityLabel(key)).map(([key, value]) => [`k8s:${key}`, value] as const),
  )
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
