import fc from 'fast-check'
import type { KubeObject } from '../../charts-src/kube-object.ts'
import type { Probe } from '../../reachability/model.ts'
import { aCiliumPolicy, address, aNetworkPolicy, entity, from, pod } from './small-world.ts'

const APPS = ['client', 'server', 'other']
const NAMESPACES = ['a', 'b']
const RANGES = ['203.0.113.0/24', '203.0.113.8/29', '10.0.0.0/8', '0.0.0.0/0', '198.51.100.1/32']
const PORTS = [79, 80, 81, 90, 8080]

const selector = fc.oneof(
  fc.constant({}),
  fc.constantFrom(...APPS).map((app) => ({ matchLabels: { app } })),
  fc
    .tuple(fc.constantFrom('In', 'NotIn'), fc.subarray(APPS, { minLength: 1 }))
    .map(([operator, values]) => ({ matchExpressions: [{ key: 'app', operator, values }] })),
)
const namespaceSelector = fc.constantFrom(
  {},
  { matchLabels: { team: 'one' } },
  { matchLabels: { 'kubernetes.io/metadata.name': 'b' } },
)

const plainPeer = fc.oneof(
  selector.map((podSelector) => ({ podSelector })),
  fc
    .tuple(namespaceSelector, fc.option(selector, { nil: undefined }))
    .map(([one, two]) => ({ namespaceSelector: one, ...(two && { podSelector: two }) })),
  fc.constantFrom(...RANGES).map((cidr) => ({ ipBlock: { cidr } })),
  fc.constant({ ipBlock: { cidr: '203.0.113.0/24', except: ['203.0.113.8/29'] } }),
)
const plainPort = fc.oneof(
  fc.record({ port: fc.constantFrom(...PORTS), protocol: fc.constantFrom('TCP', 'UDP') }),
  fc.constant({ port: 80, endPort: 90, protocol: 'TCP' }),
  fc.constant({ protocol: 'UDP' }),
  fc.constant({ port: 'http', protocol: 'TCP' }),
)

const plainRule = (peers: 'from' | 'to') =>
  fc
    .tuple(fc.array(plainPeer, { maxLength: 2 }), fc.array(plainPort, { maxLength: 2 }))
    .map(([who, ports]) => ({ [peers]: who, ports }))

const types = fc.constantFrom<readonly string[]>(['Ingress'], ['Egress'], ['Ingress', 'Egress'])

/** The spec of a NetworkPolicy that every engine reads alike. */
export const plainSpec = fc
  .tuple(
    selector,
    types,
    fc.array(plainRule('from'), { maxLength: 2 }),
    fc.array(plainRule('to'), { maxLength: 2 }),
  )
  .map(([podSelector, policyTypes, ingress, egress]) => ({
    podSelector,
    policyTypes,
    ...(policyTypes.includes('Ingress') && { ingress }),
    ...(policyTypes.includes('Egress') && { egress }),
  }))

export const plainPolicy = fc
  .tuple(plainSpec, fc.constantFrom(...NAMESPACES), fc.nat(999))
  .map(([spec, namespace, number]) => aNetworkPolicy(spec, { namespace, name: `np-${number}` }))

const ciliumPorts = fc.array(
  fc.record({
    ports: fc.array(
      fc.oneof(
        fc.record({
          port: fc.constantFrom(...PORTS.map(String)),
          protocol: fc.constantFrom('TCP', 'UDP', 'ANY'),
        }),
        fc.constant({ port: '80', endPort: 90, protocol: 'TCP' }),
        fc.constant({ port: 'http', protocol: 'TCP' }),
      ),
      { minLength: 1, maxLength: 2 },
    ),
  }),
  { maxLength: 2 },
)
const ciliumEntry = (side: 'from' | 'to') =>
  fc
    .tuple(
      fc.oneof(
        fc.constant({}),
        fc.array(selector, { maxLength: 2 }).map((list) => ({ [`${side}Endpoints`]: list })),
        fc
          .constantFrom('world', 'all', 'cluster', 'host', 'remote-node', 'kube-apiserver')
          .map((one) => ({ [`${side}Entities`]: [one] })),
        fc.constantFrom(...RANGES).map((cidr) => ({ [`${side}CIDRSet`]: [{ cidr }] })),
      ),
      ciliumPorts,
    )
    .map(([peers, toPorts]) => ({ ...peers, ...(toPorts.length > 0 && { toPorts }) }))

/** Rules of a CiliumNetworkPolicy with at least one entry. */
const ciliumSpec = fc
  .record({
    endpointSelector: selector,
    ingress: fc.array(ciliumEntry('from'), { maxLength: 2 }),
    egress: fc.array(ciliumEntry('to'), { maxLength: 2 }),
    ingressDeny: fc.array(ciliumEntry('from'), { maxLength: 1 }),
    egressDeny: fc.array(ciliumEntry('to'), { maxLength: 1 }),
  })
  .filter((spec) =>
    [spec.ingress, spec.egress, spec.ingressDeny, spec.egressDeny].some((list) => list.length > 0),
  )

export const ciliumPolicyArbitrary = fc
  .tuple(ciliumSpec, fc.constantFrom(...NAMESPACES), fc.nat(999))
  .map(([spec, namespace, number]) => aCiliumPolicy(spec, { namespace, name: `cnp-${number}` }))

/** A policy that only denies, and closes nothing else. */
export const denyingPolicy = fc
  .tuple(selector, fc.constantFrom(...NAMESPACES), ciliumEntry('to'), ciliumEntry('from'))
  .map(([endpointSelector, namespace, out, into]) =>
    aCiliumPolicy(
      {
        endpointSelector,
        enableDefaultDeny: { ingress: false, egress: false },
        egressDeny: [out],
        ingressDeny: [into],
      },
      { namespace, name: 'denying' },
    ),
  )

export const policies = fc.array(fc.oneof(plainPolicy, ciliumPolicyArbitrary), { maxLength: 5 })

export const end = fc.constantFrom<Probe['from']>(
  pod('client'),
  pod('server'),
  pod('other', 'b'),
  pod('on-host'),
  address('203.0.113.9'),
  address('203.0.113.200'),
  address('10.2.0.2'),
  address('10.9.9.9'),
  entity('kube-apiserver'),
)

export const probe = fc
  .tuple(end, end, fc.constantFrom(...PORTS, 443), fc.constantFrom('TCP', 'UDP'))
  .map(([source, target, port, protocol]) => from(source, target, `${protocol} ${port}`))

/** What stands in a spec, for a test to change. */
export const specOf = (policy: KubeObject) => policy['spec'] as Readonly<Record<string, unknown>>
