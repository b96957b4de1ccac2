import { CLUSTER_KEY, NAMESPACE_KEY, NAMESPACE_LABELS_PREFIX } from './identity.ts'
import type { PolicyContext } from './policy-context.ts'
import { type LabelSelector, type Requirement, requirementsOf } from './selector.ts'

/**
 * Which pods a rule is for. A policy of a namespace only ever selects pods of it: Cilium writes the namespace into
 * `matchLabels`, over what stands there. Every other condition on namespaces stays, and where it excludes the own one,
 * nobody is selected.
 */
export function subjectRequirements({ namespace }: PolicyContext, selector: LabelSelector): Requirement[] {
  const own = namespace === undefined ? {} : { [`k8s:${NAMESPACE_KEY}`]: namespace }
  return requirementsOf({ ...selector, matchLabels: { ...selector.matchLabels, ...own } }, 'any')
}

/**
 * Whom a peer's selector selects. A peer is of the policy's own namespace unless its selector speaks of namespaces, or
 * of what Cilium reserves. In a policy of the whole cluster it is a pod of any namespace.
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
 * Whether a peer's selector selects exactly the identities that this evaluator knows. A selector that requires no label
 * of Kubernetes can select more: where it only says what is not there, Cilium's aggregates (`aggregate-world`,
 * `aggregate-cluster` …), each of which stands for a whole group; where it names a label of any source, ranges and
 * learned names, whose labels can have any key.
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

/** Cilium adds the cluster's name, which every pod with a network of its own carries, and nothing else. */
const IN_CLUSTER: Requirement = { source: 'k8s', key: CLUSTER_KEY, operator: 'Exists', values: [] }

const within = (namespace: string): Requirement => ({
  source: 'k8s',
  key: NAMESPACE_KEY,
  operator: 'In',
  values: [namespace],
})
