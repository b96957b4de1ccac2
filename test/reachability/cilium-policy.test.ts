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
    ['an empty rule is for nobody', {}, from(pod('client'), pod('server')), false],
    ['ports without peers are for everybody', { toPorts: PORT_80 }, from(pod('client'), anywhere), true],
    [
      'an empty list of peers is for nobody',
      { toEndpoints: [], toPorts: PORT_80 },
      from(pod('client'), pod('server')),
      false,
    ],
    [
      'a rule of ports without a port is for none',
      { toEndpoints: [SERVER], toPorts: [{}] },
      from(pod('client'), pod('server')),
      false,
    ],
    [
      'peers without ports have them all',
      { toEndpoints: [SERVER] },
      from(pod('client'), pod('server'), 'ICMP 0'),
      true,
    ],
    [
      'an empty selector is the own namespace',
      { toEndpoints: [{}] },
      from(pod('client'), pod('server')),
      true,
    ],
    ['and no other', { toEndpoints: [{}] }, from(pod('client'), pod('other', 'b')), false],
    [
      'a namespace by name',
      { toEndpoints: [{ matchLabels: { 'k8s:io.kubernetes.pod.namespace': 'b' } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'without its source, too',
      { toEndpoints: [{ matchLabels: { 'io.kubernetes.pod.namespace': 'b' } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'a namespace by its labels',
      { toEndpoints: [{ matchLabels: { 'k8s:io.cilium.k8s.namespace.labels.team': 'two' } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'any namespace',
      {
        toEndpoints: [{ matchExpressions: [{ key: 'k8s:io.kubernetes.pod.namespace', operator: 'Exists' }] }],
      },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'that is pods alone',
      {
        toEndpoints: [{ matchExpressions: [{ key: 'k8s:io.kubernetes.pod.namespace', operator: 'Exists' }] }],
      },
      from(pod('client'), anywhere),
      false,
    ],
    [
      'a service account',
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
      'a reserved label speaks of no namespace',
      { toEndpoints: [{ matchLabels: { 'reserved:remote-node': '' } }] },
      from(pod('client'), address('10.2.0.2')),
      true,
    ],
    ['entity all', { toEntities: ['all'] }, from(pod('client'), anywhere), true],
    ['entity world is no pod', { toEntities: ['world'] }, from(pod('client'), pod('other', 'b')), false],
    ['entity world is no node', { toEntities: ['world'] }, from(pod('client'), address('10.2.0.2')), false],
    [
      'entity world is an API server outside',
      { toEntities: ['world'] },
      from(pod('client'), entity('kube-apiserver')),
      true,
    ],
    [
      'entity kube-apiserver is it, too',
      { toEntities: ['kube-apiserver'] },
      from(pod('client'), address('198.51.100.1')),
      true,
    ],
    [
      'and nothing else outside',
      { toEntities: ['kube-apiserver'] },
      from(pod('client'), address('198.51.100.2')),
      false,
    ],
    ['entity cluster is pods', { toEntities: ['cluster'] }, from(pod('client'), pod('other', 'b')), true],
    ['and nodes', { toEntities: ['cluster'] }, from(pod('client'), address('10.2.0.2')), true],
    ['not the world', { toEntities: ['cluster'] }, from(pod('client'), anywhere), false],
    ['entity host is the own node', { toEntities: ['host'] }, from(pod('client'), address('10.2.0.1')), true],
    ['with what runs in its network', { toEntities: ['host'] }, from(pod('client'), pod('on-host')), true],
    ['not another', { toEntities: ['host'] }, from(pod('client'), address('10.2.0.2')), false],
    ['which is remote-node', { toEntities: ['remote-node'] }, from(pod('client'), address('10.2.0.2')), true],
    [
      'entity none is nobody',
      { toEntities: ['none'], toPorts: PORT_80 },
      from(pod('client'), anywhere),
      false,
    ],
    [
      'an address is a range of one',
      { toCIDR: ['203.0.113.9'] },
      from(pod('client'), address('203.0.113.9')),
      true,
    ],
    [
      'a range with a hole',
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
      'protocol ANY is UDP, too',
      { toPorts: [{ ports: [{ port: '53', protocol: 'ANY' }] }] },
      from(pod('client'), anywhere, 'UDP 53'),
      true,
    ],
    [
      'so is a protocol left out',
      { toPorts: [{ ports: [{ port: '53' }] }] },
      from(pod('client'), anywhere, 'UDP 53'),
      true,
    ],
    [
      'port 0 is every port',
      { toPorts: [{ ports: [{ port: '0', protocol: 'UDP' }] }] },
      from(pod('client'), anywhere, 'UDP 999'),
      true,
    ],
    [
      'a range of ports',
      { toPorts: [{ ports: [{ port: '80', endPort: 90, protocol: 'TCP' }] }] },
      from(pod('client'), anywhere, 90),
      true,
    ],
    [
      'a port by name',
      { toEndpoints: [SERVER], toPorts: [{ ports: [{ port: 'HTTP', protocol: 'TCP' }] }] },
      from(pod('client'), pod('server'), 8080),
      true,
    ],
  ])('knows: %s', (...[, rule, probe, allowed]) => {
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
