import { CLUSTER_KEY, NAMESPACE_KEY, NAMESPACE_LABELS_PREFIX } from './identity.ts'
import type { PolicyContext } from './policy-context.ts'
import { type LabelSelector, type Requirement, requirementsOf } from './selector.ts'

/**
 * Returns the requirements for the pods that a rule applies to. A namespaced policy selects only pods of its namespace,
 * because Cilium overwrites the namespace in `matchLabels`. Other conditions on namespaces remain; if one excludes the
 * policy's namespace, the rule selects no pod.
 */
export function subjectRequirements({ namespace }: PolicyContext, selector: LabelSelector): Requirement[] {
  const own = namespace === undefined ? {} : { [`k8s:${NAMESPACE_KEY}`]: namespace }
  return requirementsOf({ ...selector, matchLabels: { ...selector.matchLabels, ...own } }, 'any')
}

/**
 * Returns the requirements for the peers of a rule. A peer must be in the policy's namespace unless the selector has a
 * condition on namespaces or on reserved labels. In a clusterwide policy it may be a pod of any namespace.
 */
export function peerRequirements({ namespace }: PolicyContext, selector: LabelSelector): Requirement[] {
  const own = requirementsOf(selector, 'any')
  if (own.some(({ source }) => source === 'reserved')) return own
  const requirements = own.some(({ key }) => key === CLUSTER_KEY) ? own : [...own, IN_CLUSTER]
  if (requirements.some(({ key }) => key === NAMESPACE_KEY)) return requirements
  const speaksOfLabels = requirements.some(({ key }) => key.startsWith(`${NAMESPACE_LABELS_PREFIX}.`))
  if (namespace !== undefined && speaksOfLabels) return requirements
  return [...requirements, namespace === undefined ? NAMESPACED : within(namespace)]
}

/**
 * Whether a peer's selector selects only identities that this evaluator models. A selector without a required
 * Kubernetes label can select more. If it only has negative conditions, it also selects Cilium's aggregate identities
 * (`aggregate-world`, `aggregate-cluster` …). If it requires a label of any source, it can also select CIDR and FQDN
 * identities, whose labels may have any key.
 */
export function isModelledPeer(requirements: readonly Requirement[]): boolean {
  const required = requirements.filter(({ operator }) => operator === 'In' || operator === 'Exists')
  const isOfPods = ({ source, key }: Requirement) =>
    source === 'k8s' || (source === 'any' && (key === CLUSTER_KEY || key === NAMESPACE_KEY))
  if (required.some(isOfPods)) return true
  return (
    required.some(({ source }) => source === 'reserved') &&
    requirements.every(({ source }) => source !== 'any')
  )
}

const NAMESPACED: Requirement = { source: 'k8s', key: NAMESPACE_KEY, operator: 'Exists', values: [] }

/** Cilium adds a condition on the cluster name. Only pods outside the host network have this label. */
const IN_CLUSTER: Requirement = { source: 'k8s', key: CLUSTER_KEY, operator: 'Exists', values: [] }

const within = (namespace: string): Requirement => ({
  source: 'k8s',
  key: NAMESPACE_KEY,
  operator: 'In',
  values: [namespace],
})
