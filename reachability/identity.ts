import type { Address } from './address.ts'
import type { ClusterFacts, Entity, PodFacts } from './model.ts'
import type { SourcedLabels } from './selector.ts'

/** The labels that policies see at one end of a connection. Pods with equal labels share an identity. */
export interface Identity {
  /** Unique per set of labels. */
  readonly id: number
  readonly labels: SourcedLabels
}

/** Keys of the labels that Cilium adds. */
export const CILIUM_PREFIX = 'io.cilium.k8s'
export const NAMESPACE_KEY = 'io.kubernetes.pod.namespace'
export const NAMESPACE_LABELS_PREFIX = 'io.cilium.k8s.namespace.labels'
export const CLUSTER_KEY = 'io.cilium.k8s.policy.cluster'
const SERVICE_ACCOUNT_KEY = 'io.cilium.k8s.policy.serviceaccount'
const CLUSTER_NAME = 'default'

/**
 * Labels that Cilium includes in an identity by default, and labels that it excludes (pkg/labelsfilter/filter.go of
 * 1.20). A selector with an excluded label matches no pod.
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

/** If both lists match a key, Cilium keeps the label when the match in `KEPT` is longer. */
function isIdentityLabel(key: string): boolean {
  const leftOut = LEFT_OUT.flatMap((pattern) => pattern.exec(key)?.[0].length ?? [])
  if (leftOut.length === 0) return true
  return KEPT.some((prefix) => key.startsWith(prefix) && prefix.length > Math.min(...leftOut))
}

/** Interns identities, so that each selector is evaluated once for all pods with equal labels. */
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
    /** Identity of a pod outside the host network. */
    ofPod: (pod: PodFacts): Identity => intern(podLabels(pod, namespaces.get(pod.namespace) ?? {})),
    /** Identity with reserved labels. An address can have several, such as `host` and `kube-apiserver`. */
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
  // Cilium drops pod labels under its prefix: otherwise a pod could pretend to be in another namespace.
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

/** One end of a connection, as policies see it. */
export interface Peer {
  readonly identity: Identity
  /** Set only for external ends. Pods and nodes have identities, which no CIDR rule selects. */
  readonly address?: Address
  /** Names for which the agent has learned this address. */
  readonly names: readonly string[]
  /** Set for a pod outside the host network, because policies can select it. */
  readonly pod?: PodFacts
  /** Set for a node and for pods in the host network. */
  readonly node?: string
  /** Description for use in a sentence. */
  readonly title: string
}
