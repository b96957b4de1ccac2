import { describe, expect, it } from 'vitest'
import type { Probe } from '../../reachability/model.ts'
import {
  aCiliumPolicy,
  aClusterwidePolicy,
  address,
  aNetworkPolicy,
  aPod,
  entity,
  evaluatorOf,
  from,
  pod,
  SMALL_WORLD,
} from './small-world.ts'

const CLIENT = { matchLabels: { app: 'client' } }
const SERVER = { matchLabels: { app: 'server' } }
const PORT_80 = [{ ports: [{ port: '80', protocol: 'TCP' }] }]
const anywhere = entity('world')

const leaving = (...egress: object[]) => aCiliumPolicy({ endpointSelector: CLIENT, egress })
const entering = (...ingress: object[]) => aCiliumPolicy({ endpointSelector: SERVER, ingress })

describe('a CiliumNetworkPolicy', () => {
  it.each<[string, object, Probe, boolean]>([
    ['an empty rule allows no peer', {}, from(pod('client'), pod('server')), false],
    ['ports without peers apply to every peer', { toPorts: PORT_80 }, from(pod('client'), anywhere), true],
    [
      'an empty list of peers allows no peer',
      { toEndpoints: [], toPorts: PORT_80 },
      from(pod('client'), pod('server')),
      false,
    ],
    [
      'a toPorts entry without ports allows no port',
      { toEndpoints: [SERVER], toPorts: [{}] },
      from(pod('client'), pod('server')),
      false,
    ],
    [
      'peers without ports are allowed on every port',
      { toEndpoints: [SERVER] },
      from(pod('client'), pod('server'), 'ICMP 0'),
      true,
    ],
    [
      "an empty selector selects pods of the policy's namespace",
      { toEndpoints: [{}] },
      from(pod('client'), pod('server')),
      true,
    ],
    [
      'an empty selector selects no pod of another namespace',
      { toEndpoints: [{}] },
      from(pod('client'), pod('other', 'b')),
      false,
    ],
    [
      'selects a namespace by its name',
      { toEndpoints: [{ matchLabels: { 'k8s:io.kubernetes.pod.namespace': 'b' } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'selects a namespace by its name without a source prefix',
      { toEndpoints: [{ matchLabels: { 'io.kubernetes.pod.namespace': 'b' } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'selects a namespace by its labels',
      { toEndpoints: [{ matchLabels: { 'k8s:io.cilium.k8s.namespace.labels.team': 'two' } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'Exists on the namespace label selects pods of any namespace',
      {
        toEndpoints: [{ matchExpressions: [{ key: 'k8s:io.kubernetes.pod.namespace', operator: 'Exists' }] }],
      },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'Exists on the namespace label selects only pods',
      {
        toEndpoints: [{ matchExpressions: [{ key: 'k8s:io.kubernetes.pod.namespace', operator: 'Exists' }] }],
      },
      from(pod('client'), anywhere),
      false,
    ],
    [
      'selects a service account',
      {
        toEndpoints: [
          {
            matchLabels: {
              'k8s:io.kubernetes.pod.namespace': 'b',
              'k8s:io.cilium.k8s.policy.serviceaccount': 'robot',
            },
          },
        ],
      },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'a reserved label is not limited to a namespace',
      { toEndpoints: [{ matchLabels: { 'reserved:remote-node': '' } }] },
      from(pod('client'), address('10.2.0.2')),
      true,
    ],
    ['entity all includes the world', { toEntities: ['all'] }, from(pod('client'), anywhere), true],
    ['entity world excludes pods', { toEntities: ['world'] }, from(pod('client'), pod('other', 'b')), false],
    [
      'entity world excludes nodes',
      { toEntities: ['world'] },
      from(pod('client'), address('10.2.0.2')),
      false,
    ],
    [
      'entity world includes an external API server',
      { toEntities: ['world'] },
      from(pod('client'), entity('kube-apiserver')),
      true,
    ],
    [
      'entity kube-apiserver includes an external API server',
      { toEntities: ['kube-apiserver'] },
      from(pod('client'), address('198.51.100.1')),
      true,
    ],
    [
      'entity kube-apiserver excludes other external addresses',
      { toEntities: ['kube-apiserver'] },
      from(pod('client'), address('198.51.100.2')),
      false,
    ],
    [
      'entity cluster includes pods',
      { toEntities: ['cluster'] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'entity cluster includes nodes',
      { toEntities: ['cluster'] },
      from(pod('client'), address('10.2.0.2')),
      true,
    ],
    ['entity cluster excludes the world', { toEntities: ['cluster'] }, from(pod('client'), anywhere), false],
    [
      "entity host includes the pod's own node",
      { toEntities: ['host'] },
      from(pod('client'), address('10.2.0.1')),
      true,
    ],
    [
      'entity host includes host-network pods of the own node',
      { toEntities: ['host'] },
      from(pod('client'), pod('on-host')),
      true,
    ],
    [
      'entity host excludes other nodes',
      { toEntities: ['host'] },
      from(pod('client'), address('10.2.0.2')),
      false,
    ],
    [
      'entity remote-node includes other nodes',
      { toEntities: ['remote-node'] },
      from(pod('client'), address('10.2.0.2')),
      true,
    ],
    [
      'entity none excludes every peer',
      { toEntities: ['none'], toPorts: PORT_80 },
      from(pod('client'), anywhere),
      false,
    ],
    [
      'an address is a range with one member',
      { toCIDR: ['203.0.113.9'] },
      from(pod('client'), address('203.0.113.9')),
      true,
    ],
    [
      'a range excludes the addresses under except',
      { toCIDRSet: [{ cidr: '203.0.113.0/24', except: ['203.0.113.8/29'] }] },
      from(pod('client'), address('203.0.113.9')),
      false,
    ],
    [
      'a range never selects a pod',
      { toCIDR: ['0.0.0.0/0'] },
      from(pod('client'), address('10.1.0.2')),
      false,
    ],
    [
      'protocol ANY includes UDP',
      { toPorts: [{ ports: [{ port: '53', protocol: 'ANY' }] }] },
      from(pod('client'), anywhere, 'UDP 53'),
      true,
    ],
    [
      'a missing protocol includes UDP',
      { toPorts: [{ ports: [{ port: '53' }] }] },
      from(pod('client'), anywhere, 'UDP 53'),
      true,
    ],
    [
      'port 0 means every port',
      { toPorts: [{ ports: [{ port: '0', protocol: 'UDP' }] }] },
      from(pod('client'), anywhere, 'UDP 999'),
      true,
    ],
    [
      'a port range includes its last port',
      { toPorts: [{ ports: [{ port: '80', endPort: 90, protocol: 'TCP' }] }] },
      from(pod('client'), anywhere, 90),
      true,
    ],
    [
      'resolves a port name, ignoring case',
      { toEndpoints: [SERVER], toPorts: [{ ports: [{ port: 'HTTP', protocol: 'TCP' }] }] },
      from(pod('client'), pod('server'), 8080),
      true,
    ],
  ])('%s', (...[, rule, probe, allowed]) => {
    expect(evaluatorOf([leaving(rule)]).isAllowed(probe)).toBe(allowed)
  })

  it('restricts only the directions that it has rules for', () => {
    const { isAllowed } = evaluatorOf([leaving({})])

    expect(isAllowed(from(pod('client'), anywhere))).toBe(false)
    expect(isAllowed(from(anywhere, pod('client')))).toBe(true)
  })

  it('restricts nothing if enableDefaultDeny is off, but its deny rules still apply', () => {
    const policy = aCiliumPolicy({
      endpointSelector: CLIENT,
      enableDefaultDeny: { egress: false },
      egressDeny: [{ toPorts: PORT_80 }],
    })
    const { evaluate } = evaluatorOf([policy])

    expect(evaluate(from(pod('client'), anywhere, 81))).toMatchObject({
      allowed: true,
      egress: { because: 'only default-allow policies select it' },
    })
    expect(evaluate(from(pod('client'), anywhere, 80))).toMatchObject({
      allowed: false,
      egress: { because: 'deny rule', rule: { path: 'spec.egressDeny[0]' } },
    })
  })

  it('is restricted by another policy if its own enableDefaultDeny is off', () => {
    const open = aCiliumPolicy({
      endpointSelector: CLIENT,
      enableDefaultDeny: { egress: false },
      egress: [{ toPorts: PORT_80 }],
    })
    const closed = aNetworkPolicy({ podSelector: {}, policyTypes: ['Egress'] })
    const { isAllowed } = evaluatorOf([open, closed])

    expect([80, 81].map((port) => isAllowed(from(pod('client'), anywhere, port)))).toEqual([true, false])
  })

  it('overrides an allow rule of a NetworkPolicy on both sides', () => {
    const allow = aNetworkPolicy({
      podSelector: {},
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{}],
      egress: [{}],
    })
    const denyLeaving = aCiliumPolicy({ endpointSelector: CLIENT, egressDeny: [{ toEntities: ['world'] }] })
    const denyEntering = aCiliumPolicy(
      { endpointSelector: SERVER, ingressDeny: [{ fromEndpoints: [CLIENT], toPorts: PORT_80 }] },
      { name: 'second' },
    )
    const { isAllowed } = evaluatorOf([allow, denyLeaving, denyEntering])

    expect(isAllowed(from(pod('client'), anywhere))).toBe(false)
    expect(isAllowed(from(pod('client'), pod('server'), 80))).toBe(false)
    expect(isAllowed(from(pod('client'), pod('server'), 81))).toBe(true)
  })

  it('denies a range only for addresses outside the cluster: a pod in the range stays reachable', () => {
    const policy = aCiliumPolicy({
      endpointSelector: CLIENT,
      enableDefaultDeny: { egress: false },
      egressDeny: [{ toCIDR: ['10.0.0.0/8'] }],
    })
    const { isAllowed } = evaluatorOf([policy])

    expect(isAllowed(from(pod('client'), address('10.9.9.9')))).toBe(false)
    expect(isAllowed(from(pod('client'), address('10.1.0.2')))).toBe(true)
  })

  it("allows the pod's own node, unless a rule denies it", () => {
    const closed = entering({ fromEndpoints: [CLIENT] })
    const denied = aCiliumPolicy(
      { endpointSelector: SERVER, ingressDeny: [{ fromEntities: ['host'] }] },
      { name: 'no' },
    )

    expect(evaluatorOf([closed]).evaluate(from(address('10.2.0.2'), pod('server'))).ingress).toEqual({
      allowed: true,
      because: 'the agent lets a node reach its own pods',
    })
    expect(evaluatorOf([closed, denied]).isAllowed(from(address('10.2.0.2'), pod('server')))).toBe(false)
  })

  it('accepts several rules under specs', () => {
    const policy = {
      ...aCiliumPolicy({}),
      spec: undefined,
      specs: [
        { endpointSelector: CLIENT, egress: [{ toPorts: PORT_80 }] },
        { endpointSelector: SERVER, egress: [{}] },
      ],
    }
    const { evaluate } = evaluatorOf([policy])

    expect(evaluate(from(pod('client'), anywhere)).egress.rule?.path).toBe('specs[0].egress[0]')
    expect(evaluate(from(pod('server'), anywhere)).allowed).toBe(false)
  })
})

describe('an ingress source', () => {
  it('is allowed only by a rule', () => {
    const { isAllowed } = evaluatorOf([entering({ fromEndpoints: [CLIENT], toPorts: PORT_80 })])

    expect(isAllowed(from(pod('client'), pod('server'), 80))).toBe(true)
    expect(isAllowed(from(pod('client'), pod('server'), 81))).toBe(false)
    expect(isAllowed(from(pod('other', 'b'), pod('server'), 80))).toBe(false)
    expect(isAllowed(from(anywhere, pod('server'), 80))).toBe(false)
  })

  it('without a namespace is not a pod', () => {
    const none = { matchExpressions: [{ key: 'k8s:io.kubernetes.pod.namespace', operator: 'DoesNotExist' }] }
    const { isAllowed } = evaluatorOf([entering({ fromEndpoints: [none] })])

    expect(isAllowed(from(anywhere, pod('server')))).toBe(false)
    expect(isAllowed(from(address('10.2.0.1'), pod('server')))).toBe(false)
  })
})

it('is selected by labels with a source prefix', () => {
  const subject = { matchLabels: { 'k8s:app': 'client' } }
  const { isAllowed } = evaluatorOf([aCiliumPolicy({ endpointSelector: subject, egress: [{}] })])

  expect(isAllowed(from(pod('client'), anywhere))).toBe(false)
  expect(isAllowed(from(pod('server'), anywhere))).toBe(true)
})

it('that is an API server on a node counts as a node, not as the world', () => {
  const facts = { ...SMALL_WORLD, apiServer: { ips: ['10.2.0.2'] } }
  const may = (egress: object) =>
    evaluatorOf([leaving(egress)], facts).isAllowed(from(pod('client'), entity('kube-apiserver')))

  expect(may({ toEntities: ['kube-apiserver'] })).toBe(true)
  expect(may({ toEntities: ['remote-node'] })).toBe(true)
  expect(may({ toEntities: ['world'] })).toBe(false)
})

it('resolves a port name by protocol, and not through another pod with the same labels', () => {
  const http = { name: 'http', port: 8080, protocol: 'TCP' } as const
  const pods = [
    aPod('client'),
    aPod('server', { namedPorts: [http, { ...http, name: 'dns', port: 53, protocol: 'UDP' }] }),
    aPod('twin', { labels: { app: 'server' }, namedPorts: [{ ...http, port: 9999 }] }),
  ]
  const named = { toEndpoints: [SERVER], toPorts: [{ ports: [{ port: 'http', protocol: 'TCP' }] }] }
  const { openPorts } = evaluatorOf([leaving(named)], { ...SMALL_WORLD, pods })

  expect(openPorts(pod('client'), pod('server'))).toMatchObject({ TCP: [[8080, 8080]], UDP: [] })
})

describe('a CiliumClusterwideNetworkPolicy', () => {
  it('selects pods of every namespace', () => {
    const { isAllowed } = evaluatorOf([
      aClusterwidePolicy({ endpointSelector: {}, egress: [{ toEndpoints: [{}] }] }),
    ])

    expect(isAllowed(from(pod('client'), pod('other', 'b')))).toBe(true)
    expect(isAllowed(from(pod('other', 'b'), pod('client')))).toBe(true)
    expect(isAllowed(from(pod('client'), anywhere))).toBe(false)
    expect(isAllowed(from(pod('other', 'b'), address('10.2.0.2')))).toBe(false)
  })
})
