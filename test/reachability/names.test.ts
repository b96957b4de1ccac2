import { describe, expect, it } from 'vitest'
import { nameMatcher } from '../../reachability/dns-names.ts'
import {
  aCiliumPolicy,
  address,
  aNetworkPolicy,
  evaluatorOf,
  from,
  host,
  pod,
  SMALL_WORLD,
} from './small-world.ts'

const CLIENT = { matchLabels: { app: 'client' } }
const RESOLVER = [
  { matchLabels: { 'k8s:io.kubernetes.pod.namespace': 'kube-system', 'k8s-app': 'kube-dns' } },
]
const port = (number: number, protocol = 'TCP') => ({ ports: [{ port: String(number), protocol }] })

const lookups = (...names: string[]) => ({
  toEndpoints: RESOLVER,
  toPorts: [{ ...port(53, 'ANY'), rules: { dns: names.map(selector) } }],
})
const connections = (...names: string[]) => ({ toFQDNs: names.map(selector), toPorts: [port(443)] })
const selector = (name: string) => (name.includes('*') ? { matchPattern: name } : { matchName: name })
const policy = (...egress: object[]) => aCiliumPolicy({ endpointSelector: CLIENT, egress })
const listed = policy(lookups('api.example.com'), connections('api.example.com'))

describe('a name', () => {
  it('is reachable if it is listed for both the lookup and the connection', () => {
    const { evaluate, isAllowed } = evaluatorOf([listed])

    expect(evaluate(from(pod('client'), host('api.example.com'), 443))).toMatchObject({
      allowed: true,
      lookup: { allowed: true, rule: { path: 'spec.egress[0]' } },
      egress: { rule: { path: 'spec.egress[1]' } },
    })
    expect(isAllowed(from(pod('client'), host('API.example.com.'), 443))).toBe(true)
    expect(isAllowed(from(pod('client'), host('api.example.com'), 80))).toBe(false)
  })

  it('is denied at the lookup if no rule lists it', () => {
    const answer = evaluatorOf([listed]).evaluate(from(pod('client'), host('evil.example.com'), 443))

    expect(answer).toMatchObject({ allowed: false, lookup: { because: 'the name is not listed' } })
    expect(answer.why).toBe('denied at the lookup of evil.example.com: the name is not listed')
  })

  it('is not reachable through a connection rule alone, because its lookup is denied', () => {
    const answer = evaluatorOf([policy(connections('api.example.com'))]).evaluate(
      from(pod('client'), host('api.example.com'), 443),
    )

    expect(answer).toMatchObject({ allowed: false, lookup: { because: 'default deny' } })
  })

  it('is not learned from a lookup that the agent does not read', () => {
    const plainLookup = { toEndpoints: RESOLVER, toPorts: [port(53, 'UDP')] }
    const { evaluate } = evaluatorOf([policy(plainLookup, connections('api.example.com'))])

    expect(evaluate(from(pod('client'), host('api.example.com'), 443))).toMatchObject({
      allowed: false,
      lookup: { allowed: true },
      egress: { because: 'default deny' },
    })
  })

  it('may be looked up without being reachable', () => {
    const { evaluate } = evaluatorOf([policy(lookups('api.example.com'))])

    expect(evaluate(from(pod('client'), host('api.example.com'), 443))).toMatchObject({
      allowed: false,
      lookup: { allowed: true },
    })
  })

  it('opens an address only if the address is outside the cluster', () => {
    const { isAllowed } = evaluatorOf([listed])

    expect(isAllowed(from(pod('client'), host('api.example.com', '169.254.169.254'), 443))).toBe(true)
    expect(isAllowed(from(pod('client'), host('api.example.com', '10.1.0.3'), 443))).toBe(false)
    expect(isAllowed(from(pod('client'), host('api.example.com', '10.2.0.2'), 443))).toBe(false)
  })

  it('stays closed at an address that a rule denies', () => {
    const denied = aCiliumPolicy(
      { endpointSelector: CLIENT, egressDeny: [{ toCIDR: ['169.254.0.0/16'] }] },
      { name: 'never' },
    )

    expect(
      evaluatorOf([listed, denied]).isAllowed(
        from(pod('client'), host('api.example.com', '169.254.169.254'), 443),
      ),
    ).toBe(false)
  })

  it('counts for an address that the node has learned already', () => {
    const { isAllowed } = evaluatorOf([listed])

    expect(isAllowed(from(pod('client'), address('203.0.113.9', 'api.example.com'), 443))).toBe(true)
    expect(isAllowed(from(pod('client'), address('203.0.113.9', 'evil.example.com'), 443))).toBe(false)
    expect(isAllowed(from(pod('client'), address('203.0.113.9'), 443))).toBe(false)
  })

  it('is still denied at the lookup if a broad NetworkPolicy opens all addresses', () => {
    const broad = aNetworkPolicy({ podSelector: {}, policyTypes: ['Egress'], egress: [{}] })
    const { isAllowed } = evaluatorOf([listed, broad])

    expect(isAllowed(from(pod('client'), host('evil.example.com'), 443))).toBe(false)
    expect(isAllowed(from(pod('client'), address('203.0.113.9'), 443))).toBe(true)
  })

  it('is allowed if another rule of the same port lists no names', () => {
    const plainLookup = { toEndpoints: RESOLVER, toPorts: [port(53, 'UDP')] }
    const { evaluate } = evaluatorOf([
      listed,
      aCiliumPolicy({ endpointSelector: CLIENT, egress: [plainLookup] }, { name: 'x' }),
    ])

    expect(evaluate(from(pod('client'), host('evil.example.com'), 443)).lookup).toMatchObject({
      allowed: true,
    })
  })

  it('is also learned in this case: the agent reads every lookup of that port', () => {
    const plainLookup = { toEndpoints: RESOLVER, toPorts: [port(53, 'UDP')] }
    const both = [listed, aCiliumPolicy({ endpointSelector: CLIENT, egress: [plainLookup] }, { name: 'x' })]

    expect(evaluatorOf(both).isAllowed(from(pod('client'), host('api.example.com'), 443))).toBe(true)
  })

  it('may be looked up if no rule closes the pod, and its addresses are still learned', () => {
    const open = aCiliumPolicy({
      endpointSelector: CLIENT,
      enableDefaultDeny: { egress: false },
      egress: [lookups('api.example.com')],
    })
    const denied = aCiliumPolicy(
      {
        endpointSelector: CLIENT,
        enableDefaultDeny: { egress: false },
        egressDeny: [{ toCIDR: ['203.0.113.0/24'] }],
      },
      { name: 'never' },
    )

    expect(evaluatorOf([open]).isAllowed(from(pod('client'), host('evil.example.com'), 443))).toBe(true)
    expect(
      evaluatorOf([open, denied]).evaluate(from(pod('client'), host('evil.example.com'), 443)),
    ).toMatchObject({
      allowed: false,
      lookup: { allowed: true },
      egress: { because: 'deny rule' },
    })
  })

  it('is not held to a list that stands at another port', () => {
    const elsewhere = {
      toEndpoints: RESOLVER,
      toPorts: [{ ...port(5353, 'UDP'), rules: { dns: [{ matchName: 'a.b' }] } }],
    }
    const plainLookup = { toEndpoints: RESOLVER, toPorts: [port(53, 'UDP')] }
    const { evaluate } = evaluatorOf([policy(elsewhere, plainLookup, connections('api.example.com'))])

    expect(evaluate(from(pod('client'), host('api.example.com'), 443))).toMatchObject({
      allowed: false,
      lookup: { allowed: true },
    })
  })

  it('cannot be looked up without a resolver', () => {
    const { resolver: _none, ...facts } = SMALL_WORLD

    expect(evaluatorOf([], facts).evaluate(from(pod('client'), host('a.example.com'))).lookup).toEqual({
      allowed: false,
      because: 'there is no resolver',
    })
  })
})

it.each<[string, string, boolean]>([
  ['api.example.com', 'api.example.com', true],
  ['api.example.com', 'api.example.com.evil.com', false],
  ['api.example.com', 'apiXexample.com', false],
  ['*.example.com', 'a.example.com', true],
  ['*.example.com', 'a.b.example.com', false],
  ['*.example.com', 'example.com', false],
  ['a*.example.com', 'abc.example.com', true],
  ['**.example.com', 'a.b.example.com', true],
  ['**.example.com', 'example.com', false],
  ['*', 'anything.at.all', true],
  ['*.*.example.com', 'a.b.example.com', true],
])('the pattern %s and the name %s', (pattern, name, isMatch) => {
  expect(
    nameMatcher([pattern.includes('*') ? { matchPattern: pattern } : { matchName: pattern }])(name),
  ).toBe(isMatch)
})

it('matches nothing with an empty selector', () => {
  expect(nameMatcher([{}])('')).toBe(false)
  expect(nameMatcher([{ matchPattern: '' }])('example.com')).toBe(false)
})
