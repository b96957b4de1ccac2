import fc from 'fast-check'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { CIDRS, ENTITIES, LABELS, NAMES, OWN, PEER, PORTS } from './fuzz-world.ts'

/** Policies of one namespace, as the set that is probed together. */
export type PolicySet = readonly KubeObject[]

type Fields = Readonly<Record<string, unknown>>
const MAX_POLICIES = 3
const MAX_RULES = 3

const list = <T>(of: fc.Arbitrary<T>, maxLength: number, minLength = 1) =>
  fc.array(of, { minLength, maxLength })

/** Generates objects in which each field is optional. */
const some = (fields: Readonly<Record<string, fc.Arbitrary<unknown>>>) =>
  fc.record(fields, { requiredKeys: [] }) as fc.Arbitrary<Fields>

// Labels and selectors: keys and values of the pods on the stage, and some that none has.

const labelPair = fc.constantFrom(...LABELS)
const matchLabels = labelPair.map(([key, value]) => ({ matchLabels: { [key]: value } }))
const matchExpressions = fc
  .tuple(labelPair, fc.constantFrom('In', 'NotIn', 'Exists', 'DoesNotExist'))
  .map(([[key, value], operator]) => ({
    matchExpressions: [{ key, operator, ...(operator.endsWith('In') ? { values: [value] } : {}) }],
  }))
const podSelector: fc.Arbitrary<Fields> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 5, arbitrary: matchLabels },
  { weight: 2, arbitrary: matchExpressions },
)
const namespaceSelector: fc.Arbitrary<Fields> = fc.oneof(
  fc.constant({}),
  fc.constantFrom(OWN, PEER).map((name) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } })),
  fc.constantFrom('red', 'blue').map((team) => ({ matchLabels: { team } })),
  fc.constantFrom('In', 'NotIn').map((operator) => ({
    matchExpressions: [{ key: 'team', operator, values: ['blue'] }],
  })),
)

// NetworkPolicy

const cidr = fc.constantFrom(...CIDRS)
const cidrWithExcept = cidr.chain(({ range, inner }) =>
  fc.record({
    cidr: fc.constant(range),
    ...(inner.length > 0 ? { except: fc.subarray([...inner]) } : {}),
  }),
)
const plainPeer = fc.oneof(
  podSelector.map((selector) => ({ podSelector: selector })),
  namespaceSelector.map((selector) => ({ namespaceSelector: selector })),
  fc.record({ podSelector, namespaceSelector }),
  cidrWithExcept.map((ipBlock) => ({ ipBlock })),
)
const plainPort = fc.oneof(
  fc.constantFrom('TCP', 'UDP').map((protocol) => ({ protocol })),
  fc.record({ protocol: fc.constantFrom('TCP', 'UDP'), port: fc.constantFrom(...PORTS.numbers) }),
  fc.record({ protocol: fc.constant('TCP'), port: fc.constantFrom(...PORTS.names) }),
  fc.constantFrom(...PORTS.ranges).map(([port, endPort]) => ({ protocol: 'TCP', port, endPort })),
)
const plainRule = (peers: 'from' | 'to') => some({ [peers]: list(plainPeer, 2), ports: list(plainPort, 2) })
const networkPolicy = fc
  .record({
    podSelector,
    ingress: fc.option(list(plainRule('from'), MAX_RULES, 0), { nil: undefined }),
    egress: fc.option(list(plainRule('to'), MAX_RULES, 0), { nil: undefined }),
  })
  .map(({ podSelector: subject, ingress, egress }) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    spec: {
      podSelector: subject,
      policyTypes: [...(egress ? ['Egress'] : []), ...(ingress || !egress ? ['Ingress'] : [])],
      ...(ingress ? { ingress } : {}),
      ...(egress ? { egress } : {}),
    },
  }))

// CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy

const NAMESPACE_KEY = 'k8s:io.kubernetes.pod.namespace'
const TEAM_KEY = 'k8s:io.cilium.k8s.namespace.labels.team'
const endpointPeer: fc.Arbitrary<Fields> = fc.oneof(
  podSelector,
  fc
    .tuple(fc.constantFrom(OWN, PEER), podSelector)
    .map(([name, selector]) => withLabel(selector, NAMESPACE_KEY, name)),
  fc
    .tuple(fc.constantFrom('red', 'blue'), podSelector)
    .map(([team, selector]) => withLabel(selector, TEAM_KEY, team)),
  fc.constant({ matchExpressions: [{ key: NAMESPACE_KEY, operator: 'Exists' }] }),
)
const namePattern = fc.constantFrom(...NAMES)
const ciliumPorts = fc.oneof(
  fc.constantFrom(...PORTS.numbers).map((port) => ({ port: String(port) })),
  fc.constantFrom(...PORTS.names).map((port) => ({ port })),
  fc.constantFrom(...PORTS.ranges).map(([port, endPort]) => ({ port: String(port), endPort })),
  fc.constant({ port: '0' }),
)
const ciliumPort = fc
  .tuple(ciliumPorts, fc.constantFrom('TCP', 'UDP', 'ANY'))
  .map(([port, protocol]) => ({ ...port, protocol }))
const toPorts = list(fc.record({ ports: list(ciliumPort, 2) }), 2)

function peersOf(direction: 'from' | 'to'): fc.Arbitrary<Fields> {
  const field = (name: string, of: fc.Arbitrary<unknown>) =>
    of.map((value) => ({ [direction + name]: value }))
  return fc.oneof(
    { weight: 4, arbitrary: field('Endpoints', list(endpointPeer, 2, 0)) },
    { weight: 3, arbitrary: field('Entities', list(fc.constantFrom(...ENTITIES), 2)) },
    {
      weight: 2,
      arbitrary: field(
        'CIDR',
        list(
          cidr.map(({ range }) => range),
          2,
        ),
      ),
    },
    { weight: 2, arbitrary: field('CIDRSet', list(cidrWithExcept, 2)) },
    { weight: 1, arbitrary: fc.constant({}) },
  )
}

const ciliumRule = (direction: 'from' | 'to') =>
  fc
    .tuple(peersOf(direction), fc.option(toPorts, { nil: undefined }))
    .map(([peers, ports]) => ({ ...peers, ...(ports ? { toPorts: ports } : {}) }))

const lookups = fc.record({
  toEndpoints: fc.constant([{ matchLabels: { [NAMESPACE_KEY]: 'kube-system', 'k8s:k8s-app': 'kube-dns' } }]),
  toPorts: fc
    .option(list(namePattern, 3), { nil: undefined, freq: 4 })
    .map((dns) => [{ ports: [{ port: '53', protocol: 'ANY' }], ...(dns ? { rules: { dns } } : {}) }]),
})
const toNames = fc
  .tuple(list(namePattern, 2), fc.option(toPorts, { nil: undefined }))
  .map(([toFQDNs, ports]) => ({ toFQDNs, ...(ports ? { toPorts: ports } : {}) }))
const egressRules = fc.oneof(
  { weight: 3, arbitrary: list(ciliumRule('to'), MAX_RULES) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(lookups, toNames, list(ciliumRule('to'), 1, 0))
      .map(([lookup, names, others]) => [lookup, names, ...others]),
  },
)
const defaultDeny = some({ ingress: fc.boolean(), egress: fc.boolean() })
const ciliumSpec = fc
  .record(
    {
      enableDefaultDeny: defaultDeny,
      ingress: list(ciliumRule('from'), MAX_RULES),
      ingressDeny: list(ciliumRule('from'), 2),
      egress: egressRules,
      egressDeny: list(ciliumRule('to'), 2),
    },
    { requiredKeys: [] },
  )
  .filter((spec) => Object.keys(spec).some((key) => key !== 'enableDefaultDeny'))
const ciliumRuleOf = fc
  .tuple(podSelector, ciliumSpec)
  .map(([endpointSelector, spec]): Fields => ({ endpointSelector, ...spec }))
const ciliumPolicy = fc.oneof(
  { weight: 4, arbitrary: ciliumRuleOf.map((spec): Fields => ({ spec })) },
  { weight: 1, arbitrary: list(ciliumRuleOf, 2).map((specs): Fields => ({ specs })) },
)
const namespacedCilium = ciliumPolicy.map((rest) => ({
  apiVersion: 'cilium.io/v2',
  kind: 'CiliumNetworkPolicy',
  ...rest,
}))
/** Held to the namespace of the set by its selector, as it would reach into the other sets otherwise. */
const clusterwideCilium = ciliumRuleOf.map(({ endpointSelector, ...spec }) => ({
  apiVersion: 'cilium.io/v2',
  kind: 'CiliumClusterwideNetworkPolicy',
  spec: { endpointSelector: withLabel(endpointSelector as Fields, NAMESPACE_KEY, OWN), ...spec },
}))

function withLabel(selector: Fields, key: string, value: string): Fields {
  return { ...selector, matchLabels: { ...(selector['matchLabels'] as Fields | undefined), [key]: value } }
}

/** One to three policies over the stage of `fuzz-world.ts`. */
export const policySet: fc.Arbitrary<PolicySet> = list(
  fc.oneof(
    { weight: 4, arbitrary: networkPolicy },
    { weight: 5, arbitrary: namespacedCilium },
    { weight: 1, arbitrary: clusterwideCilium },
  ),
  MAX_POLICIES,
).map((policies) =>
  policies.map((policy, index) => {
    const isClusterwide = policy.kind === 'CiliumClusterwideNetworkPolicy'
    const metadata = { name: `${OWN}-set-${index}`, ...(isClusterwide ? {} : { namespace: OWN }) }
    return { ...policy, metadata }
  }),
)
