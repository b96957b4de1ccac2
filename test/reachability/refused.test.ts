import { describe, expect, it } from 'vitest'
import type { KubeObject } from '../../charts-src/kube-object.ts'
import { policyFaults } from '../../reachability/compile-policies.ts'
import { createEvaluator } from '../../reachability/evaluate.ts'
import { aCiliumPolicy, aClusterwidePolicy, aNetworkPolicy, SMALL_WORLD } from './small-world.ts'

const PORTS = [{ ports: [{ port: '80', protocol: 'TCP' }] }]
const egress = (...rules: object[]) => aCiliumPolicy({ endpointSelector: {}, egress: rules })
const ingress = (...rules: object[]) => aCiliumPolicy({ endpointSelector: {}, ingress: rules })
const plain = (rule: object) => aNetworkPolicy({ podSelector: {}, policyTypes: ['Egress'], egress: [rule] })
const dns = (ports: object, ...names: object[]) => ({ toPorts: [{ ...ports, rules: { dns: names } }] })
const names = { matchName: 'a.example.com' }

describe('what the API server takes and the agent refuses', () => {
  it.each<[string, KubeObject, string]>([
    ['names with ranges', egress({ toFQDNs: [names], toCIDR: ['1.1.1.1'] }), 'combining toCIDR and toFQDNs'],
    [
      'names with range sets',
      egress({ toFQDNs: [names], toCIDRSet: [{ cidr: '1.1.1.0/24' }] }),
      'combining toCIDRSet and toFQDNs',
    ],
    ['names with pods', egress({ toFQDNs: [names], toEndpoints: [{}] }), 'combining toEndpoints and toFQDNs'],
    [
      'pods with entities',
      egress({ toEndpoints: [{}], toEntities: ['world'] }),
      'combining toEndpoints and toEntities',
    ],
    [
      'pods with ranges, on entering',
      ingress({ fromEndpoints: [{}], fromCIDR: ['1.1.1.1'] }),
      'combining fromEndpoints and fromCIDR',
    ],
    ['lookups on entering', ingress(dns({ ports: [{ port: '53' }] }, names)), 'not allowed on ingress'],
    ['lookups without a port', egress(dns({}, names)), 'need port 53'],
    ['lookups at every port', egress(dns({ ports: [{ port: '0' }] }, names)), 'port 0'],
    [
      'lookups at a range of ports',
      egress(dns({ ports: [{ port: '53', endPort: 60 }] }, names)),
      'ranges of ports',
    ],
    [
      'a name and a pattern at once',
      egress({ toFQDNs: [{ ...names, matchPattern: '*' }] }),
      'both matchName and matchPattern',
    ],
    [
      'a name with a star',
      egress({ toFQDNs: [{ matchName: '*.example.com' }] }),
      'characters that no name has',
    ],
    [
      'a pattern with a slash',
      egress({ toFQDNs: [{ matchPattern: 'a/b' }] }),
      'characters that no pattern has',
    ],
    ['a name that is too long', egress({ toFQDNs: [{ matchName: 'a'.repeat(256) }] }), 'longer than a name'],
    ['an unknown entity', egress({ toEntities: ['internet'] }), 'is no entity'],
    ['a property of every object as entity', egress({ toEntities: ['constructor'] }), 'is no entity'],
    ['an invalid range', egress({ toCIDR: ['10.0.0.0/33'] }), 'is no range'],
    [
      'an address without a length in a range set',
      egress({ toCIDRSet: [{ cidr: '10.0.0.1' }] }),
      'is no range',
    ],
    [
      'an address without a length in a NetworkPolicy',
      plain({ to: [{ ipBlock: { cidr: '10.0.0.1' } }] }),
      'is no range',
    ],
    [
      'a hole outside its range',
      egress({ toCIDRSet: [{ cidr: '10.0.0.0/8', except: ['11.0.0.0/16'] }] }),
      'no range inside',
    ],
    [
      'too many ports',
      egress({ toPorts: [{ ports: Array.from({ length: 41 }, (_, n) => ({ port: String(n + 1) })) }] }),
      'more than 40',
    ],
    ['an invalid port', egress({ toPorts: [{ ports: [{ port: '70000' }] }] }), 'is no port'],
    ['a port that is missing', egress({ toPorts: [{ ports: [{ port: '' }] }] }), 'must be named'],
    ['no rule at all', aCiliumPolicy({ endpointSelector: {} }), 'has none of'],
    ['no spec', { ...aCiliumPolicy({}), spec: undefined }, 'is missing'],
    ['no endpointSelector', aCiliumPolicy({ egress: [{}] }), 'no endpointSelector'],
    [
      'In without values',
      egress({ toEndpoints: [{ matchExpressions: [{ key: 'a', operator: 'In' }] }] }),
      'needs values',
    ],
    [
      'Exists with values',
      egress({ toEndpoints: [{ matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] }] }),
      'takes no values',
    ],
    [
      'a label key with two slashes',
      aCiliumPolicy({ endpointSelector: { matchLabels: { 'a/b/c': 'd' } }, egress: [{}] }),
      'no key',
    ],
    [
      'a label key beyond 63 signs',
      egress({ toEndpoints: [{ matchLabels: { ['k'.repeat(64)]: 'v' } }] }),
      'no key',
    ],
    [
      'a label key with an empty part before its slash',
      egress({ toEndpoints: [{ matchLabels: { 'a..b/c': 'd' } }] }),
      'no key',
    ],
    [
      'a label key with a source in a NetworkPolicy',
      aNetworkPolicy({ podSelector: { matchLabels: { 'k8s:app': 'client' } } }),
      'no key',
    ],
    [
      'a label value with a space',
      egress({ toEndpoints: [{ matchExpressions: [{ key: 'a', operator: 'In', values: ['b c'] }] }] }),
      'no value',
    ],
    [
      'a range together with a selector',
      plain({ to: [{ ipBlock: { cidr: '10.0.0.0/8' }, podSelector: {} }] }),
      'and a selector',
    ],
    ['a peer without a selector', plain({ to: [{}] }), 'selects nothing'],
    ['an endPort before its port', plain({ ports: [{ port: 80, endPort: 79 }] }), 'endPort'],
    ['an endPort after a name', plain({ ports: [{ port: 'http', endPort: 90 }] }), 'endPort'],
  ])('%s', (_what, policy, reason) => {
    expect(policyFaults([policy])).toContainEqual(
      expect.objectContaining({ kind: 'refused by the agent', reason: expect.stringContaining(reason) }),
    )
  })
})

describe('unsupported policy fields', () => {
  it.each<[string, KubeObject, string]>([
    ['a field of no meaning here', egress({ toServices: [] }), 'spec.egress[0].toServices'],
    ['ICMP types', egress({ icmps: [{ fields: [{ type: 8 }] }] }), 'spec.egress[0].icmps'],
    [
      'HTTP',
      egress({ toPorts: [{ ...PORTS[0], rules: { http: [{}] } }] }),
      'spec.egress[0].toPorts[0].rules.http',
    ],
    [
      'server names',
      egress({ toPorts: [{ ...PORTS[0], serverNames: ['a.example.com'] }] }),
      'spec.egress[0].toPorts[0].serverNames',
    ],
    [
      'groups of ranges',
      egress({ toCIDRSet: [{ cidrGroupRef: 'x' }] }),
      'spec.egress[0].toCIDRSet[0].cidrGroupRef',
    ],
    ['nodes', egress({ toNodes: [{}] }), 'spec.egress[0].toNodes'],
    ['authentication', egress({ authentication: { mode: 'required' } }), 'spec.egress[0].authentication'],
    ['policies of nodes', aClusterwidePolicy({ nodeSelector: {}, ingress: [{}] }), 'spec.nodeSelector'],
    [
      'names in a deny rule',
      aCiliumPolicy({ endpointSelector: {}, egressDeny: [{ toFQDNs: [names] }] }),
      'spec.egressDeny[0].toFQDNs',
    ],
    [
      'an empty list of names, which is everybody',
      egress({ toFQDNs: [], toPorts: PORTS }),
      'spec.egress[0].toFQDNs',
    ],
    [
      'an empty list of lookups, which is every name',
      egress(dns({ ports: [{ port: '53' }] })),
      'spec.egress[0].toPorts[0].rules.dns',
    ],
    [
      'a port with a leading zero, which is octal',
      egress({ toPorts: [{ ports: [{ port: '010' }] }] }),
      'spec.egress[0].toPorts[0].ports[0]',
    ],
    [
      'a range of ports that ends before it begins',
      egress({ toPorts: [{ ports: [{ port: '90', endPort: 80 }] }] }),
      'spec.egress[0].toPorts[0].ports[0]',
    ],
    [
      'a range of ports that begins with a name',
      egress({ toPorts: [{ ports: [{ port: 'http', endPort: 90 }] }] }),
      'spec.egress[0].toPorts[0].ports[0]',
    ],
    ['a range of IPv4 written as IPv6', egress({ toCIDR: ['::ffff:10.0.0.0/104'] }), 'spec.egress[0]'],
    [
      'a label that is there twice, with and without its source',
      aCiliumPolicy({ endpointSelector: { matchLabels: { app: 'a', 'any:app': 'b' } }, egress: [{}] }),
      'spec.endpointSelector',
    ],
    [
      'a peer with only negative expressions, which selects whole groups',
      egress({ toEndpoints: [{ matchExpressions: [{ key: 'reserved:host', operator: 'DoesNotExist' }] }] }),
      'spec.egress[0]',
    ],
    [
      'a peer outside by a label of any source, which a learned name can be',
      egress({ toEndpoints: [{ matchLabels: { 'reserved:world': '', 'one.example.com': '' } }] }),
      'spec.egress[0]',
    ],
    [
      "the label of one of Cilium's groups",
      egress({ toEndpoints: [{ matchLabels: { 'reserved:aggregate-world': '' } }] }),
      'spec.egress[0]',
    ],
    [
      "the label of a pod's named ports",
      aCiliumPolicy({
        endpointSelector: { matchExpressions: [{ key: 'io.cilium.k8s.named-ports', operator: 'Exists' }] },
        egress: [{}],
      }),
      'spec.endpointSelector',
    ],
    [
      "a NetworkPolicy's label that Cilium writes",
      aNetworkPolicy({ podSelector: { matchLabels: { 'io.kubernetes.pod.namespace': 'b' } } }),
      'spec.podSelector',
    ],
    [
      'labels of other sources',
      egress({ toEndpoints: [{ matchLabels: { 'cidr:10.0.0.0/8': '' } }] }),
      'spec.egress[0]',
    ],
    ['entities of meshes', egress({ toEntities: ['cluster-mesh'] }), 'spec.egress[0].toEntities'],
    ['a namespaced policy without a namespace', aClusterwideNamed(), 'metadata.namespace'],
    [
      'rules of a direction that is left out',
      aNetworkPolicy({ podSelector: {}, policyTypes: ['Egress'], ingress: [{}] }),
      'spec.ingress',
    ],
    ['a new field of NetworkPolicy', aNetworkPolicy({ podSelector: {}, tier: 'first' }), 'spec.tier'],
    [
      'another policy of the cluster',
      policyOf('policy.networking.k8s.io/v1alpha2', 'ClusterNetworkPolicy'),
      'kind',
    ],
    ['another policy of Cilium', policyOf('cilium.io/v2', 'CiliumLocalRedirectPolicy'), 'kind'],
    ['another version', policyOf('cilium.io/v3', 'CiliumNetworkPolicy'), 'kind'],
    ["another engine's policy", policyOf('projectcalico.org/v3', 'NetworkPolicy'), 'kind'],
  ])('%s', (_what, policy, path) => {
    expect(policyFaults([policy])).toContainEqual(expect.objectContaining({ kind: 'not understood', path }))
  })

  it('stops the evaluation, also of the policies that are understood', () => {
    const outcome = createEvaluator([plain({}), egress({ toServices: [] })], SMALL_WORLD)

    expect(outcome).toMatchObject({ ok: false, faults: [{ policy: 'CiliumNetworkPolicy a/cnp' }] })
  })

  it('are all reported at once', () => {
    expect(policyFaults([egress({ toServices: [] }, { toNodes: [] }), plain({ to: [{}] })])).toHaveLength(3)
  })
})

it('reports nothing for valid policies and for other kinds', () => {
  const others: KubeObject[] = [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' } },
    { apiVersion: 'networking.k8s.io/v1', kind: 'Ingress', metadata: { name: 'x' } },
  ]

  expect(policyFaults([egress({ toFQDNs: [names], toPorts: PORTS }), plain({}), ...others])).toEqual([])
})

function aClusterwideNamed(): KubeObject {
  return { ...aClusterwidePolicy({ endpointSelector: {}, egress: [{}] }), kind: 'CiliumNetworkPolicy' }
}

function policyOf(apiVersion: string, kind: string): KubeObject {
  return { apiVersion, kind, metadata: { name: 'x', namespace: 'a' }, spec: {} }
}
