import { describe, expect, it } from 'vitest'
import type { Probe } from '../../reachability/model.ts'
import { address, aNetworkPolicy, aPod, entity, evaluatorOf, from, pod, SMALL_WORLD } from './small-world.ts'

const CLIENT = { matchLabels: { app: 'client' } }
const SERVER = { matchLabels: { app: 'server' } }
const anywhere = entity('world')

const leaving = (...egress: object[]) =>
  aNetworkPolicy({ podSelector: CLIENT, policyTypes: ['Egress'], egress })
const entering = (...ingress: object[]) =>
  aNetworkPolicy({ podSelector: SERVER, policyTypes: ['Ingress'], ingress })

describe('a NetworkPolicy', () => {
  it('does not restrict pods that it does not select', () => {
    const { evaluate } = evaluatorOf([leaving()])

    expect(evaluate(from(pod('server'), anywhere))).toMatchObject({
      allowed: true,
      egress: { because: 'no policy selects it' },
    })
    expect(evaluate(from(anywhere, pod('client')))).toMatchObject({ allowed: true })
  })

  it('denies one direction of the selected pod by default, and reports default deny', () => {
    const { evaluate } = evaluatorOf([leaving()])

    expect(evaluate(from(pod('client'), anywhere))).toMatchObject({
      allowed: false,
      egress: { because: 'default deny' },
      why: 'denied on leaving a/client: default deny',
    })
  })

  it('reports the rule that allows the traffic', () => {
    const { evaluate } = evaluatorOf([
      leaving({ to: [], ports: [{ port: 81 }] }, { to: [{ podSelector: SERVER }] }),
    ])

    expect(evaluate(from(pod('client'), pod('server'))).egress).toEqual({
      allowed: true,
      because: 'rule',
      rule: { policy: 'NetworkPolicy a/np', path: 'spec.egress[1]' },
    })
  })

  it.each<[string, object, Probe, boolean]>([
    ['a rule without peers allows every peer', {}, from(pod('client'), anywhere), true],
    ['a rule without peers allows nodes', {}, from(pod('client'), address('10.2.0.2')), true],
    [
      'pods of its own namespace',
      { to: [{ podSelector: SERVER }] },
      from(pod('client'), pod('server')),
      true,
    ],
    [
      'selects no pods of another namespace',
      { to: [{ podSelector: {} }] },
      from(pod('client'), pod('other', 'b')),
      false,
    ],
    [
      'selects namespaces by label',
      { to: [{ namespaceSelector: { matchLabels: { team: 'two' } } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'excludes namespaces without the label',
      { to: [{ namespaceSelector: { matchLabels: { team: 'one' } } }] },
      from(pod('client'), pod('other', 'b')),
      false,
    ],
    [
      'selects namespaces by the name label that the API server sets',
      { to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'b' } } }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'requires both selectors of a peer',
      { to: [{ namespaceSelector: {}, podSelector: SERVER }] },
      from(pod('client'), pod('other', 'b')),
      false,
    ],
    [
      'requires one of two peers',
      { to: [{ podSelector: SERVER }, { namespaceSelector: {} }] },
      from(pod('client'), pod('other', 'b')),
      true,
    ],
    [
      'a selector of all namespaces excludes external addresses',
      { to: [{ namespaceSelector: {} }] },
      from(pod('client'), anywhere),
      false,
    ],
    [
      'a selector of all namespaces excludes nodes',
      { to: [{ namespaceSelector: {} }] },
      from(pod('client'), address('10.2.0.2')),
      false,
    ],
    [
      'a selector of all namespaces excludes host-network pods',
      { to: [{ namespaceSelector: {} }] },
      from(pod('client'), pod('on-host')),
      false,
    ],
    [
      'In',
      {
        to: [
          { podSelector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['x', 'server'] }] } },
        ],
      },
      from(pod('client'), pod('server')),
      true,
    ],
    [
      'NotIn',
      {
        to: [{ podSelector: { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['server'] }] } }],
      },
      from(pod('client'), pod('server')),
      false,
    ],
    [
      'NotIn with a missing label',
      { to: [{ podSelector: { matchExpressions: [{ key: 'zone', operator: 'NotIn', values: ['x'] }] } }] },
      from(pod('client'), pod('server')),
      true,
    ],
    [
      'Exists',
      { to: [{ podSelector: { matchExpressions: [{ key: 'zone', operator: 'Exists' }] } }] },
      from(pod('client'), pod('server')),
      false,
    ],
    [
      'DoesNotExist',
      { to: [{ podSelector: { matchExpressions: [{ key: 'zone', operator: 'DoesNotExist' }] } }] },
      from(pod('client'), pod('server')),
      true,
    ],
    [
      'includes an address in a range',
      { to: [{ ipBlock: { cidr: '203.0.113.0/24' } }] },
      from(pod('client'), address('203.0.113.9')),
      true,
    ],
    [
      'excludes an address outside of a range',
      { to: [{ ipBlock: { cidr: '203.0.113.0/24' } }] },
      from(pod('client'), address('203.0.114.9')),
      false,
    ],
    [
      'excludes an address under except',
      { to: [{ ipBlock: { cidr: '203.0.113.0/24', except: ['203.0.113.8/29'] } }] },
      from(pod('client'), address('203.0.113.9')),
      false,
    ],
    [
      'a second range includes an address excluded from the first',
      {
        to: [
          { ipBlock: { cidr: '203.0.113.0/24', except: ['203.0.113.8/29'] } },
          { ipBlock: { cidr: '203.0.113.9/32' } },
        ],
      },
      from(pod('client'), address('203.0.113.9')),
      true,
    ],
    [
      'a range never selects a pod',
      { to: [{ ipBlock: { cidr: '0.0.0.0/0' } }] },
      from(pod('client'), address('10.1.0.2')),
      false,
    ],
    [
      'a range never selects a node',
      { to: [{ ipBlock: { cidr: '0.0.0.0/0' } }] },
      from(pod('client'), address('10.2.0.2')),
      false,
    ],
    [
      'a range selects an external API server',
      { to: [{ ipBlock: { cidr: '0.0.0.0/0' } }] },
      from(pod('client'), address('198.51.100.1')),
      true,
    ],
    [
      'an IPv4 range excludes IPv6 addresses',
      { to: [{ ipBlock: { cidr: '0.0.0.0/0' } }] },
      from(pod('client'), address('2001:db8::1')),
      false,
    ],
    [
      'an IPv4-mapped IPv6 address counts as IPv4',
      { to: [{ ipBlock: { cidr: '203.0.113.0/24' } }] },
      from(pod('client'), address('::ffff:203.0.113.9')),
      true,
    ],
    [
      'a missing protocol means TCP',
      { ports: [{ port: 53 }] },
      from(pod('client'), anywhere, 'UDP 53'),
      false,
    ],
    [
      'a missing port means every port of the protocol',
      { ports: [{ protocol: 'UDP' }] },
      from(pod('client'), anywhere, 'UDP 999'),
      true,
    ],
    [
      'includes the last port of a range',
      { ports: [{ port: 80, endPort: 90 }] },
      from(pod('client'), anywhere, 90),
      true,
    ],
    [
      'excludes the port after a range',
      { ports: [{ port: 80, endPort: 90 }] },
      from(pod('client'), anywhere, 91),
      false,
    ],
    [
      'resolves a port name of the target',
      { ports: [{ port: 'http' }] },
      from(pod('client'), pod('server'), 8080),
      true,
    ],
    [
      'a port name excludes other numbers',
      { ports: [{ port: 'http' }] },
      from(pod('client'), pod('server'), 80),
      false,
    ],
    ['includes ICMP if no port is given', {}, from(pod('client'), anywhere, 'ICMP 0'), true],
    [
      'excludes ICMP if a port is given',
      { ports: [{ port: 80 }] },
      from(pod('client'), anywhere, 'ICMP 0'),
      false,
    ],
  ])('egress: %s', (...[, rule, probe, allowed]) => {
    expect(evaluatorOf([leaving(rule)]).isAllowed(probe)).toBe(allowed)
  })

  it.each<[string, object, Probe, boolean]>([
    [
      'pods of its own namespace',
      { from: [{ podSelector: CLIENT }] },
      from(pod('client'), pod('server')),
      true,
    ],
    [
      'resolves a port name of the selected pod',
      { ports: [{ port: 'http' }] },
      from(pod('client'), pod('server'), 8080),
      true,
    ],
    [
      'allows the node of the pod regardless of the rules',
      { from: [{ podSelector: CLIENT }] },
      from(address('10.2.0.2'), pod('server')),
      true,
    ],
    [
      'excludes other nodes',
      { from: [{ podSelector: CLIENT }] },
      from(address('10.2.0.1'), pod('server')),
      false,
    ],
    [
      'excludes host-network pods of another node',
      { from: [{ namespaceSelector: {} }] },
      from(pod('on-host'), pod('server')),
      false,
    ],
    [
      'selects external addresses',
      { from: [{ ipBlock: { cidr: '203.0.113.0/24' } }] },
      from(address('203.0.113.9'), pod('server')),
      true,
    ],
  ])('ingress: %s', (...[, rule, probe, allowed]) => {
    expect(evaluatorOf([entering(rule)]).isAllowed(probe)).toBe(allowed)
  })

  it('is evaluated on both sides', () => {
    const out = leaving({ to: [{ podSelector: SERVER }] })
    const other = entering({ from: [{ namespaceSelector: { matchLabels: { team: 'two' } } }] })

    expect(evaluatorOf([out]).isAllowed(from(pod('client'), pod('server')))).toBe(true)
    expect(evaluatorOf([out, other]).evaluate(from(pod('client'), pod('server')))).toMatchObject({
      allowed: false,
      egress: { allowed: true },
      ingress: { allowed: false, because: 'default deny' },
    })
  })

  it('is combined with other policies', () => {
    const first = leaving({ ports: [{ port: 80 }] })
    const second = aNetworkPolicy(
      { podSelector: {}, policyTypes: ['Egress'], egress: [{ ports: [{ port: 81 }] }] },
      { name: 'second' },
    )
    const { isAllowed } = evaluatorOf([first, second])

    expect([80, 81, 82].map((port) => isAllowed(from(pod('client'), anywhere, port)))).toEqual([
      true,
      true,
      false,
    ])
  })

  it('never blocks a pod from itself', () => {
    const closed = aNetworkPolicy({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] })

    expect(evaluatorOf([closed]).isAllowed(from(pod('client'), address('10.1.0.1')))).toBe(true)
    expect(evaluatorOf([closed]).isAllowed(from(pod('client'), pod('server')))).toBe(false)
  })

  it('does not apply to pods in the host network', () => {
    const closed = aNetworkPolicy({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] })

    expect(evaluatorOf([closed]).isAllowed(from(pod('on-host'), anywhere))).toBe(true)
  })

  it('without policyTypes restricts ingress, and egress only if it has egress rules', () => {
    const silent = evaluatorOf([aNetworkPolicy({ podSelector: {} })])
    const withEgress = evaluatorOf([aNetworkPolicy({ podSelector: {}, egress: [{ ports: [{ port: 80 }] }] })])

    expect(silent.isAllowed(from(anywhere, pod('client')))).toBe(false)
    expect(silent.isAllowed(from(pod('client'), anywhere, 81))).toBe(true)
    expect(withEgress.isAllowed(from(pod('client'), anywhere, 81))).toBe(false)
  })

  it('cannot select by a label that Cilium excludes from identities', () => {
    const pods = [aPod('client'), aPod('server', { labels: { app: 'server', 'pod-template-hash': 'x' } })]
    const rule = leaving({ to: [{ podSelector: { matchLabels: { 'pod-template-hash': 'x' } } }] })

    expect(evaluatorOf([rule], { ...SMALL_WORLD, pods }).isAllowed(from(pod('client'), pod('server')))).toBe(
      false,
    )
  })
})
