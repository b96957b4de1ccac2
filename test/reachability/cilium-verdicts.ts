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

/** The pods that a policy of namespace `a` selects. It denies all other traffic of these pods. */
const SUBJECTS: readonly Leaving[] = [
  ['its own namespace among others', where(NAMESPACE, 'In', 'b', 'a'), fromClient, false],
  ['another namespace by an expression selects no pods', where(NAMESPACE, 'In', 'b'), fromClient, true],
  ['also not a pod of that namespace', where(NAMESPACE, 'In', 'b'), fromOther, true],
  ['another namespace by a label is its own', label(NAMESPACE, 'b'), fromClient, false],
  ['and not the one that is named', label(NAMESPACE, 'b'), fromOther, true],
  [
    'another namespace by a label without its source selects no pods',
    label('io.kubernetes.pod.namespace', 'b'),
    fromClient,
    true,
  ],
  [
    'another namespace by a label of any source selects no pods',
    label('any:io.kubernetes.pod.namespace', 'b'),
    fromClient,
    true,
  ],
  [
    'a label together with an expression: the expression applies',
    { ...label(NAMESPACE, 'b'), ...where(NAMESPACE, 'In', 'b') },
    fromClient,
    true,
  ],
  ['the same the other way', { ...label(NAMESPACE, 'b'), ...where(NAMESPACE, 'In', 'a') }, fromClient, false],
  ['any namespace except its own selects no pods', where(NAMESPACE, 'NotIn', 'a'), fromClient, true],
  ['any namespace but another is its own', where(NAMESPACE, 'NotIn', 'b'), fromClient, false],
  ['any namespace is its own', where(NAMESPACE, 'Exists'), fromClient, false],
  ['no namespace selects no pods', where(NAMESPACE, 'DoesNotExist'), fromClient, true],
  [
    'no namespace without its source selects no pods',
    where('io.kubernetes.pod.namespace', 'DoesNotExist'),
    fromClient,
    true,
  ],
  [
    'a namespace with a source that Cilium reserves selects no pods',
    label('reserved:io.kubernetes.pod.namespace', 'a'),
    fromClient,
    true,
  ],
  ['a label of the same namespace', label(`${LABELS}.team`, 'one'), fromClient, false],
  ['a label of another namespace selects no pods', label(`${LABELS}.team`, 'two'), fromClient, true],
  ['and no pod of that namespace', label(`${LABELS}.team`, 'two'), fromOther, true],
  ['a label that its own namespace lacks', where(`${LABELS}.absent`, 'DoesNotExist'), fromClient, false],
]

const CLUSTERWIDE_SUBJECTS: readonly Leaving[] = [
  ['one namespace', where(NAMESPACE, 'In', 'b'), fromOther, false],
  ['and no other', where(NAMESPACE, 'In', 'b'), fromClient, true],
  ['every namespace but one', where(NAMESPACE, 'NotIn', 'a'), fromOther, false],
  ['every namespace', {}, fromOther, false],
  ['no namespace', where(NAMESPACE, 'DoesNotExist'), fromOther, true],
  ['two namespaces at once', { ...label(NAMESPACE, 'a'), ...where(NAMESPACE, 'In', 'b') }, fromOther, true],
]

const toServer = from(pod('client'), pod('server'))
const toOther = from(pod('client'), pod('other', 'b'))

/** Whom a policy of namespace `a` opens. */
const PEERS: readonly Leaving[] = [
  ['its own namespace', {}, toServer, true],
  ['and no other', {}, toOther, false],
  ['another namespace by an expression', where(NAMESPACE, 'In', 'b'), toOther, true],
  ['which is not its own', where(NAMESPACE, 'In', 'b'), toServer, false],
  ['every namespace but its own', where(NAMESPACE, 'NotIn', 'a'), toOther, true],
  ['which its own is not', where(NAMESPACE, 'NotIn', 'a'), toServer, false],
  ['no namespace selects no pods', where(NAMESPACE, 'DoesNotExist'), toServer, false],
  ['no namespace selects no address outside', where(NAMESPACE, 'DoesNotExist'), fromClient, false],
  [
    'two namespaces at once select no pods',
    { ...label('io.kubernetes.pod.namespace', 'a'), ...where(NAMESPACE, 'In', 'b') },
    toOther,
    false,
  ],
  ['namespaces without a label', where(`${LABELS}.team`, 'NotIn', 'one'), toOther, true],
  ['a label that no namespace has', where(`${LABELS}.absent`, 'DoesNotExist'), toOther, true],
]

const CLUSTERWIDE_PEERS: readonly Leaving[] = [
  ['every pod', {}, toOther, true],
  ['and no address outside', {}, fromClient, false],
  ['a label of a namespace', label(`${LABELS}.team`, 'two'), toOther, true],
  ['namespaces without a label', where(`${LABELS}.team`, 'NotIn', 'one'), toOther, true],
  [
    'and no address outside, which has no label either',
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

const denyNone = aCiliumPolicy({
  endpointSelector: where(NAMESPACE, 'In', 'b'),
  egressDeny: [{ toEntities: ['all'] }],
})

export const CILIUM_VERDICTS: readonly CiliumVerdict[] = [
  ...titled('who is selected', SUBJECTS, (selector) => aCiliumPolicy(rule(selector, {}))),
  ...titled('who is selected in the whole cluster', CLUSTERWIDE_SUBJECTS, (selector) =>
    aClusterwidePolicy(rule(selector, {})),
  ),
  ...titled('who is a peer', PEERS, (selector) => aCiliumPolicy(rule(CLIENT, { toEndpoints: [selector] }))),
  ...titled('who is a peer in the whole cluster', CLUSTERWIDE_PEERS, (selector) =>
    aClusterwidePolicy(rule(CLIENT, { toEndpoints: [selector] })),
  ),
  verdict(['a deny rule of a policy that selects no pods denies nothing', {}, fromClient, true], [denyNone]),
  named('the number that the pod gives it', from(pod('client'), pod('server'), 8080), true),
  named('never the number of a pod with the same labels', from(pod('client'), pod('server'), 9090), false),
  named('nor for a pod that names no port', from(pod('client'), pod('unnamed'), 8080), false),
  named('one number only, the last that the pod declares', from(pod('client'), pod('twice'), 8080), false),
  impersonated('no namespace that the pod claims', {}, false),
  impersonated('the namespace that it is in', label(NAMESPACE, 'b'), true),
  impersonated('no label of a namespace', label(`${LABELS}.rank`, 'high'), false),
  impersonated(
    'no service account',
    { matchLabels: { [NAMESPACE]: 'b', 'k8s:io.cilium.k8s.policy.serviceaccount': 'robot' } },
    false,
  ),
  impersonated(
    'no label of a beta, also of a namespace',
    where(`${LABELS}.beta.kubernetes.io/zone`, 'Exists'),
    false,
  ),
  verdict(
    ['an endPort of zero is ignored', {}, from(pod('client'), pod('server'), 81), false],
    [aCiliumPolicy(rule(CLIENT, { toPorts: [{ ports: [{ port: '80', endPort: 0, protocol: 'TCP' }] }] }))],
  ),
  verdict(
    [
      'every address of one family excludes the other family',
      {},
      from(pod('client'), address('203.0.113.9')),
      false,
    ],
    [aCiliumPolicy(rule(CLIENT, { toCIDR: ['::/0'] }))],
  ),
  verdict(
    ['port 0 of any protocol is no ICMP', {}, from(pod('client'), pod('server'), 'ICMP 8'), false],
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
