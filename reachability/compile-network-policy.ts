import * as z from 'zod'
import type { KubeObject } from '../charts-src/kube-object.ts'
import type { CompiledRule, Direction, PeerMatch, PortMatch } from './compiled-rule.ts'
import { CILIUM_PREFIX, NAMESPACE_KEY, NAMESPACE_LABELS_PREFIX } from './identity.ts'
import {
  checkSelector,
  notUnderstood,
  type PolicyContext,
  parseStrictly,
  rangeMatch,
  refused,
} from './policy-context.ts'
import {
  createSelector,
  keysOf,
  LabelSelector,
  type Requirement,
  requirementsOf,
  type Selector,
} from './selector.ts'

const Peer = z.strictObject({
  podSelector: LabelSelector.nullish(),
  namespaceSelector: LabelSelector.nullish(),
  ipBlock: z.strictObject({ cidr: z.string(), except: z.array(z.string()).nullish() }).nullish(),
})
const Port = z.strictObject({
  protocol: z.enum(['TCP', 'UDP', 'SCTP']).nullish(),
  port: z.union([z.int().min(1).max(65_535), z.string().regex(/^(?=.*[a-z])[a-z0-9-]{1,15}$/)]).nullish(),
  endPort: z.int().min(1).max(65_535).nullish(),
})
const Ports = z.array(Port).nullish()
const Spec = z.strictObject({
  podSelector: LabelSelector.nullish(),
  policyTypes: z.array(z.enum(['Ingress', 'Egress'])).nullish(),
  ingress: z.array(z.strictObject({ from: z.array(Peer).nullish(), ports: Ports })).nullish(),
  egress: z.array(z.strictObject({ to: z.array(Peer).nullish(), ports: Ports })).nullish(),
})

interface PlainRule {
  readonly peers: readonly z.infer<typeof Peer>[]
  readonly ports: readonly z.infer<typeof Port>[]
}

/** Compiles a `NetworkPolicy` of `networking.k8s.io/v1`. */
export function compileNetworkPolicy(context: PolicyContext, object: KubeObject): CompiledRule[] {
  const spec = parseStrictly(context, z.object({ spec: Spec }), object)?.spec
  if (spec === undefined) return []
  const own = spec.podSelector ?? {}
  checkPlainSelector(context, 'spec.podSelector', own)
  const subject = createSelector([...requirementsOf(own, 'k8s'), inNamespace(context)])
  const ingress = (spec.ingress ?? []).map(({ from, ports }) => ({ peers: from ?? [], ports: ports ?? [] }))
  const egress = (spec.egress ?? []).map(({ to, ports }) => ({ peers: to ?? [], ports: ports ?? [] }))
  const types = spec.policyTypes?.length ? spec.policyTypes : defaultTypes(egress.length > 0)
  return [
    ...compileDirection(context, { direction: 'ingress', isOn: types.includes('Ingress'), subject }, ingress),
    ...compileDirection(context, { direction: 'egress', isOn: types.includes('Egress'), subject }, egress),
  ]
}

/** The API server's default for `policyTypes`. */
const defaultTypes = (hasEgress: boolean): ('Ingress' | 'Egress')[] =>
  hasEgress ? ['Ingress', 'Egress'] : ['Ingress']

interface DirectionOfPolicy {
  readonly direction: Direction
  readonly isOn: boolean
  readonly subject: Selector
}

function compileDirection(
  context: PolicyContext,
  { direction, isOn, subject }: DirectionOfPolicy,
  rules: readonly PlainRule[],
): CompiledRule[] {
  const path = `spec.${direction}`
  const list = direction === 'ingress' ? 'from' : 'to'
  if (!isOn && rules.length > 0)
    notUnderstood(context, path, 'has rules, but policyTypes leaves the direction out: engines differ on it')
  if (!isOn) return []
  const closing = {
    direction,
    isDeny: false,
    isDefaultDeny: true,
    subject,
    peers: [],
    ports: [],
    ref: { policy: context.policy, path: 'spec.policyTypes' },
  }
  const compiled = rules.map(({ peers, ports }, index) => ({
    ...closing,
    peers:
      peers.length === 0 ? ('anyone' as const) : compilePeers(context, `${path}[${index}].${list}`, peers),
    ports: ports.length === 0 ? ('all' as const) : compilePorts(context, `${path}[${index}]`, ports),
    ref: { policy: context.policy, path: `${path}[${index}]` },
  }))
  return compiled.length === 0 ? [closing] : compiled
}

function compilePeers(context: PolicyContext, path: string, peers: PlainRule['peers']): PeerMatch[] {
  return peers.flatMap((peer, index) => {
    const match = compilePeer(context, `${path}[${index}]`, peer)
    return match === undefined ? [] : [match]
  })
}

function compilePeer(
  context: PolicyContext,
  path: string,
  { podSelector, namespaceSelector, ipBlock }: z.infer<typeof Peer>,
): PeerMatch | undefined {
  const selectors = [podSelector, namespaceSelector].filter((selector) => selector != null)
  if ((ipBlock ? 1 : 0) + Math.min(selectors.length, 1) !== 1) {
    refused(context, path, ipBlock ? 'has ipBlock and a selector' : 'selects nothing')
    return undefined
  }
  if (ipBlock)
    return rangeMatch(context, `${path}.ipBlock`, { cidr: ipBlock.cidr, except: ipBlock.except ?? [] })
  for (const selector of selectors) checkPlainSelector(context, path, selector)
  const pods = requirementsOf(podSelector ?? {}, 'k8s')
  const namespaces = namespaceSelector ? ofNamespaces(namespaceSelector) : [inNamespace(context)]
  return { kind: 'selector', selector: createSelector([...pods, ...namespaces]) }
}

/**
 * Selectors of a NetworkPolicy contain plain Kubernetes labels: keys without a source prefix, and no labels that Cilium
 * adds.
 */
function checkPlainSelector(context: PolicyContext, path: string, selector: LabelSelector): void {
  checkSelector(context, path, selector)
  const sourced = keysOf(selector).find((key) => key.includes(':'))
  if (sourced !== undefined) refused(context, path, `"${sourced}" is no key of a label`)
  const written = keysOf(selector).find((key) => key === NAMESPACE_KEY || key.startsWith(CILIUM_PREFIX))
  if (written !== undefined)
    notUnderstood(context, path, `selects by "${written}", which Cilium writes: engines differ on it`)
}

/**
 * Cilium adds the labels of a pod's namespace to the pod, under a prefix. An empty selector only requires that the pod
 * has a namespace.
 */
function ofNamespaces(selector: LabelSelector): Requirement[] {
  const requirements = requirementsOf(selector, 'k8s').map((requirement) => ({
    ...requirement,
    key: `${NAMESPACE_LABELS_PREFIX}.${requirement.key}`,
  }))
  const isNamespaced = { source: 'k8s', key: NAMESPACE_KEY, operator: 'Exists', values: [] } as const
  return [...requirements, isNamespaced]
}

const inNamespace = ({ namespace = 'default' }: PolicyContext): Requirement => ({
  source: 'k8s',
  key: NAMESPACE_KEY,
  operator: 'In',
  values: [namespace],
})

function compilePorts(context: PolicyContext, path: string, ports: PlainRule['ports']): PortMatch[] {
  return ports.map(({ protocol, port, endPort }, index) => {
    const at = `${path}.ports[${index}]`
    const known = protocol ?? 'TCP'
    if (endPort && (typeof port !== 'number' || endPort < port))
      refused(context, at, 'has an endPort without a number before it')
    if (typeof port === 'string') return { protocol: known, first: 0, last: 0, name: port }
    return { protocol: known, first: port ?? 1, last: endPort ?? port ?? 65_535 }
  })
}
