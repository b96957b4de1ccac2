import type { KubeObject } from '../../charts-src/kube-object.ts'
import type { ClusterFacts, PodFacts, Probe } from '../../reachability/model.ts'
import {
  aCiliumPolicy,
  aClusterwidePolicy,
  address,
  aNetworkPolicy,
  aPod,
  entity,
  from,
  pod,
  SMALL_WORLD,
} from './small-world.ts'

/** A verdict of Cilium's own policy engine (its Go package `pkg/policy`, 1.20.2), for policies that are easily misread. */
export interface CiliumVerdict {
  readonly title: string
  readonly policies: readonly KubeObject[]
  readonly facts: ClusterFacts
  readonly probe: Probe
  readonly side: 'egress' | 'ingress'
  readonly allowed: boolean
}

const NAMESPACE = 'k8s:io.kubernetes.pod.namespace'
const LABELS = 'k8s:io.cilium.k8s.namespace.labels'
const CLIENT = { matchLabels: { app: 'client' } }
const SERVER = { matchLabels: { app: 'server' } }
const world = entity('world')

const where = (key: string, operator: string, ...values: string[]) => ({
  matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }],
})
const label = (key: string, value: string) => ({ matchLabels: { [key]: value } })

type Leaving = readonly [title: string, selector: object, probe: Probe, allowed: boolean]
const verdict = (
  [title, , probe, allowed]: Leaving,
  policies: readonly KubeObject[],
  more: Partial<CiliumVerdict> = {},
): CiliumVerdict => ({ title, policies, facts: SMALL_WORLD, probe, side: 'egress', allowed, ...more })

const fromClient = from(pod('client'), world)
const fromOther = from(pod('other', 'b'), world)

/** Whom a policy of namespace `a` selects: whoever it selects, it closes. */
const SUBJECTS: readonly Leaving[] = [
  ['In with its own namespace selects it', where(NAMESPACE, 'In', 'b', 'a'), fromClient, false],
  ['In with another namespace selects no pod', where(NAMESPACE, 'In', 'b'), fromClient, true],
  [
    'In with another namespace selects no pod of that namespace',
    where(NAMESPACE, 'In', 'b'),
    fromOther,
    true,
  ],
  [
    'the label of another namespace is replaced by its own namespace',
    label(NAMESPACE, 'b'),
    fromClient,
    false,
  ],
  ['the label of another namespace does not select that namespace', label(NAMESPACE, 'b'), fromOther, true],
  [
    'an unprefixed label of another namespace selects no pod',
    label('io.kubernetes.pod.namespace', 'b'),
    fromClient,
    true,
  ],
  [
    'a label of another namespace with the prefix any selects no pod',
    label('any:io.kubernetes.pod.namespace', 'b'),
    fromClient,
    true,
  ],
  [
    'an expression for another namespace stays in force next to a label',
    { ...label(NAMESPACE, 'b'), ...where(NAMESPACE, 'In', 'b') },
    fromClient,
    true,
  ],
  [
    'an expression for its own namespace stays in force next to a label',
    { ...label(NAMESPACE, 'b'), ...where(NAMESPACE, 'In', 'a') },
    fromClient,
    false,
  ],
  ['NotIn with its own namespace selects no pod', where(NAMESPACE, 'NotIn', 'a'), fromClient, true],
  ['NotIn with another namespace selects its own', where(NAMESPACE, 'NotIn', 'b'), fromClient, false],
  ['Exists selects its own namespace', where(NAMESPACE, 'Exists'), fromClient, false],
  ['DoesNotExist selects no pod of its own namespace', where(NAMESPACE, 'DoesNotExist'), fromClient, true],
  [
    'an unprefixed DoesNotExist selects no pod',
    where('io.kubernetes.pod.namespace', 'DoesNotExist'),
    fromClient,
    true,
  ],
  [
    'a namespace label with the prefix reserved selects no pod',
    label('reserved:io.kubernetes.pod.namespace', 'a'),
    fromClient,
    true,
  ],
  ['selects by a label of its own namespace', label(`${LABELS}.team`, 'one'), fromClient, false],
  ['a label of another namespace selects no pod', label(`${LABELS}.team`, 'two'), fromClient, true],
  [
    'a label of another namespace selects no pod of that namespace',
    label(`${LABELS}.team`, 'two'),
    fromOther,
    true,
  ],
  [
    'DoesNotExist with a missing label selects its own namespace',
    where(`${LABELS}.absent`, 'DoesNotExist'),
    fromClient,
    false,
  ],
]

const CLUSTERWIDE_SUBJECTS: readonly Leaving[] = [
  ['selects one namespace', where(NAMESPACE, 'In', 'b'), fromOther, false],
  ['excludes other namespaces', where(NAMESPACE, 'In', 'b'), fromClient, true],
  ['NotIn selects the other namespaces', where(NAMESPACE, 'NotIn', 'a'), fromOther, false],
  ['an empty selector selects every namespace', {}, fromOther, false],
  ['DoesNotExist selects no pod', where(NAMESPACE, 'DoesNotExist'), fromOther, true],
  [
    'two different namespaces select no pod',
    { ...label(NAMESPACE, 'a'), ...where(NAMESPACE, 'In', 'b') },
    fromOther,
    true,
  ],
]

const toServer = from(pod('client'), pod('server'))
const toOther = from(pod('client'), pod('other', 'b'))

/** Whom a policy of namespace `a` opens. */
const PEERS: readonly Leaving[] = [
  ['an empty selector selects its own namespace', {}, toServer, true],
  ['an empty selector selects no other namespace', {}, toOther, false],
  ['In selects another namespace', where(NAMESPACE, 'In', 'b'), toOther, true],
  ['In with another namespace excludes its own', where(NAMESPACE, 'In', 'b'), toServer, false],
  ['NotIn with its own namespace selects other namespaces', where(NAMESPACE, 'NotIn', 'a'), toOther, true],
  ['NotIn with its own namespace excludes it', where(NAMESPACE, 'NotIn', 'a'), toServer, false],
  ['DoesNotExist selects no pod', where(NAMESPACE, 'DoesNotExist'), toServer, false],
  ['DoesNotExist selects no external peer', where(NAMESPACE, 'DoesNotExist'), fromClient, false],
  [
    'two different namespaces select no peer',
    { ...label('io.kubernetes.pod.namespace', 'a'), ...where(NAMESPACE, 'In', 'b') },
    toOther,
    false,
  ],
  ['namespaces without a label', where(`${LABELS}.team`, 'NotIn', 'one'), toOther, true],
  [
    'DoesNotExist selects namespaces that lack a label',
    where(`${LABELS}.absent`, 'DoesNotExist'),
    toOther,
    true,
  ],
]

const CLUSTERWIDE_PEERS: readonly Leaving[] = [
  ['an empty selector selects every pod', {}, toOther, true],
  ['an empty selector selects no external peer', {}, fromClient, false],
  ['selects by a namespace label', label(`${LABELS}.team`, 'two'), toOther, true],
  ['namespaces without a label', where(`${LABELS}.team`, 'NotIn', 'one'), toOther, true],
  [
    'NotIn with a namespace label selects no external peer',
    where(`${LABELS}.team`, 'NotIn', 'one'),
    fromClient,
    false,
  ],
]

const rule = (endpointSelector: object, ...egress: object[]) => ({ endpointSelector, egress })
const titled = (what: string, cases: readonly Leaving[], policyOf: (selector: object) => KubeObject) =>
  cases.map((one) => verdict([`${what}: ${one[0]}`, one[1], one[2], one[3]], [policyOf(one[1])]))

const http = { name: 'http', port: 8080, protocol: 'TCP' } as const
const worldOf = (...pods: readonly PodFacts[]): ClusterFacts => ({ ...SMALL_WORLD, pods })
const atName = (peers: object = {}) => ({
  ...peers,
  toPorts: [{ ports: [{ port: 'http', protocol: 'TCP' }] }],
})
const withNames = worldOf(
  aPod('client', { node: 'n1' }),
  aPod('server', { node: 'n1', namedPorts: [http] }),
  aPod('twin', { node: 'n1', labels: { app: 'server' }, namedPorts: [{ ...http, port: 9090 }] }),
  aPod('unnamed', { node: 'n1', labels: { app: 'server' } }),
  aPod('twice', { node: 'n1', namedPorts: [http, { ...http, port: 8081, protocol: 'UDP' }] }),
)
const named = (title: string, probe: Probe, allowed: boolean) =>
  verdict(
    [`a port's name: ${title}`, {}, probe, allowed],
    [aCiliumPolicy(rule(CLIENT, atName({ toEndpoints: [{}] })))],
    { facts: withNames },
  )

/** A pod that carries labels which Cilium writes itself. */
const impostor = aPod('impostor', {
  namespace: 'b',
  node: 'n1',
  labels: {
    app: 'impostor',
    'io.kubernetes.pod.namespace': 'a',
    'io.cilium.k8s.namespace.labels.rank': 'high',
    'io.cilium.k8s.policy.serviceaccount': 'robot',
  },
})
const withImpostor: ClusterFacts = {
  ...worldOf(aPod('client', { node: 'n1' }), impostor),
  namespaces: [{ name: 'a' }, { name: 'b', labels: { team: 'two', 'beta.kubernetes.io/zone': 'x' } }],
}
const impersonated = (title: string, selector: object, allowed: boolean) =>
  verdict(
    [`labels of a pod: ${title}`, {}, from(pod('impostor', 'b'), pod('client')), allowed],
    [aCiliumPolicy({ endpointSelector: CLIENT, ingress: [{ fromEndpoints: [selector] }] })],
    { facts: withImpostor, side: 'ingress' },
  )

const denyNobody = aCiliumPolicy({
  endpointSelector: where(NAMESPACE, 'In', 'b'),
  egressDeny: [{ toEntities: ['all'] }],
})

export const CILIUM_VERDICTS: readonly CiliumVerdict[] = [
  ...titled('subject', SUBJECTS, (selector) => aCiliumPolicy(rule(selector, {}))),
  ...titled('clusterwide subject', CLUSTERWIDE_SUBJECTS, (selector) =>
    aClusterwidePolicy(rule(selector, {})),
  ),
  ...titled('peer', PEERS, (selector) => aCiliumPolicy(rule(CLIENT, { toEndpoints: [selector] }))),
  ...titled('clusterwide peer', CLUSTERWIDE_PEERS, (selector) =>
    aClusterwidePolicy(rule(CLIENT, { toEndpoints: [selector] })),
  ),
  verdict(['a deny rule of a policy that selects no pod denies nothing', {}, fromClient, true], [denyNobody]),
  named('resolves to the number that the pod declares', from(pod('client'), pod('server'), 8080), true),
  named(
    'does not resolve to the number of another pod with the same labels',
    from(pod('client'), pod('server'), 9090),
    false,
  ),
  named('does not resolve for a pod without named ports', from(pod('client'), pod('unnamed'), 8080), false),
  named(
    'resolves only to the last number that the pod declares',
    from(pod('client'), pod('twice'), 8080),
    false,
  ),
  impersonated('a namespace label set by the pod is ignored', {}, false),
  impersonated('the real namespace is used', label(NAMESPACE, 'b'), true),
  impersonated('a namespace label copied to the pod is ignored', label(`${LABELS}.rank`, 'high'), false),
  impersonated(
    'a service account label set by the pod is ignored',
    { matchLabels: { [NAMESPACE]: 'b', 'k8s:io.cilium.k8s.policy.serviceaccount': 'robot' } },
    false,
  ),
  impersonated(
    'labels of beta.kubernetes.io are ignored, even on a namespace',
    where(`${LABELS}.beta.kubernetes.io/zone`, 'Exists'),
    false,
  ),
  verdict(
    ['an endPort of zero means no range', {}, from(pod('client'), pod('server'), 81), false],
    [aCiliumPolicy(rule(CLIENT, { toPorts: [{ ports: [{ port: '80', endPort: 0, protocol: 'TCP' }] }] }))],
  ),
  verdict(
    ['a range of all IPv6 addresses excludes IPv4', {}, from(pod('client'), address('203.0.113.9')), false],
    [aCiliumPolicy(rule(CLIENT, { toCIDR: ['::/0'] }))],
  ),
  verdict(
    ['port 0 with protocol ANY excludes ICMP', {}, from(pod('client'), pod('server'), 'ICMP 8'), false],
    [aCiliumPolicy(rule(CLIENT, { toPorts: [{ ports: [{ port: '0', protocol: 'ANY' }] }] }))],
  ),
  verdict(
    ['a NetworkPolicy: a namespace without a label', {}, toOther, true],
    [
      aNetworkPolicy({
        podSelector: SERVER,
        policyTypes: ['Ingress'],
      }),
      aNetworkPolicy(
        {
          podSelector: CLIENT,
          policyTypes: ['Egress'],
          egress: [{ to: [{ namespaceSelector: where('team', 'NotIn', 'one') }] }],
        },
        { name: 'second' },
      ),
    ],
  ),
]
