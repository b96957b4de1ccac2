/** A `spec` of a CiliumNetworkPolicy. */
export interface PolicyShape {
  readonly title: string
  readonly spec: Readonly<Record<string, unknown>>
}

const ALL = { endpointSelector: {} }
const NAME = { matchName: 'a.example.net' }
const WEB = [{ port: '80', protocol: 'TCP' }]
const DNS = [{ port: '53', protocol: 'ANY' }]
const CIDR = '203.0.113.0/24'
const POD = { matchLabels: { app: 'a' } }

const egress = (...rules: readonly unknown[]) => ({ ...ALL, egress: rules })
const ingress = (...rules: readonly unknown[]) => ({ ...ALL, ingress: rules })

/**
 * Policies that the API server accepts, because the CRD's schema allows them, but that the agent only rejects in its
 * log: the pods stay as open as before. Found by a test of every rule in `pkg/policy/api/rule_validation.go` of Cilium
 * 1.20 on a cluster.
 */
export const REFUSED_SHAPES: readonly PolicyShape[] = [
  { title: 'toFQDNs with toCIDR', spec: egress({ toFQDNs: [NAME], toCIDR: [CIDR] }) },
  { title: 'toFQDNs with toCIDRSet', spec: egress({ toFQDNs: [NAME], toCIDRSet: [{ cidr: CIDR }] }) },
  { title: 'toFQDNs with toEndpoints', spec: egress({ toFQDNs: [NAME], toEndpoints: [POD] }) },
  { title: 'toFQDNs with toEntities', spec: egress({ toFQDNs: [NAME], toEntities: ['world'] }) },
  { title: 'toCIDR with toCIDRSet', spec: egress({ toCIDR: [CIDR], toCIDRSet: [{ cidr: CIDR }] }) },
  { title: 'toCIDR with toEndpoints', spec: egress({ toCIDR: [CIDR], toEndpoints: [POD] }) },
  { title: 'toCIDR with toEntities', spec: egress({ toCIDR: [CIDR], toEntities: ['cluster'] }) },
  { title: 'toEndpoints with toEntities', spec: egress({ toEndpoints: [POD], toEntities: ['cluster'] }) },
  {
    title: 'toServices with toCIDR',
    spec: egress({ toServices: [{ k8sService: { serviceName: 's', namespace: 'n' } }], toCIDR: [CIDR] }),
  },
  { title: 'fromCIDR with fromEndpoints', spec: ingress({ fromCIDR: [CIDR], fromEndpoints: [POD] }) },
  { title: 'fromCIDR with fromCIDRSet', spec: ingress({ fromCIDR: [CIDR], fromCIDRSet: [{ cidr: CIDR }] }) },
  {
    title: 'fromEntities with fromEndpoints',
    spec: ingress({ fromEntities: ['host'], fromEndpoints: [POD] }),
  },
  {
    title: 'a deny of toCIDR with toEntities',
    spec: { ...ALL, egressDeny: [{ toCIDR: [CIDR], toEntities: ['world'] }] },
  },
  {
    title: 'a deny of fromCIDR with fromEntities',
    spec: { ...ALL, ingressDeny: [{ fromCIDR: [CIDR], fromEntities: ['world'] }] },
  },
  { title: 'empty directions', spec: { ...ALL, egress: [], ingress: [] } },
  { title: 'a nodeSelector', spec: { nodeSelector: {}, egress: [{}] } },
  { title: 'toNodes', spec: egress({ toNodes: [{ matchLabels: { a: 'b' } }] }) },
  { title: 'fromNodes', spec: ingress({ fromNodes: [{ matchLabels: { a: 'b' } }] }) },
  { title: 'DNS rules on ingress', spec: ingress({ toPorts: [{ ports: DNS, rules: { dns: [NAME] } }] }) },
  { title: 'DNS rules without a port', spec: egress({ toPorts: [{ rules: { dns: [NAME] } }] }) },
  {
    title: 'DNS rules with an empty list of ports',
    spec: egress({ toPorts: [{ ports: [], rules: { dns: [NAME] } }] }),
  },
  {
    title: 'DNS rules for port 0',
    spec: egress({ toPorts: [{ ports: [{ port: '0', protocol: 'ANY' }], rules: { dns: [NAME] } }] }),
  },
  {
    title: 'DNS rules for a range of ports',
    spec: egress({
      toPorts: [{ ports: [{ port: '53', endPort: 60, protocol: 'ANY' }], rules: { dns: [NAME] } }],
    }),
  },
  {
    title: 'HTTP rules on UDP',
    spec: egress({
      toPorts: [{ ports: [{ port: '80', protocol: 'UDP' }], rules: { http: [{ method: 'GET' }] } }],
    }),
  },
  {
    title: 'HTTP rules on any protocol',
    spec: egress({
      toPorts: [{ ports: [{ port: '80', protocol: 'ANY' }], rules: { http: [{ method: 'GET' }] } }],
    }),
  },
  {
    title: 'HTTP rules with a path that is no expression',
    spec: egress({ toPorts: [{ ports: WEB, rules: { http: [{ path: '(' }] } }] }),
  },
  {
    title: 'an HTTP listener on ingress',
    spec: ingress({ toPorts: [{ ports: WEB, listener: { envoyConfig: { name: 'x' }, name: 'y' } }] }),
  },
  {
    title: 'a listener with HTTP rules',
    spec: egress({
      toPorts: [{ ports: WEB, listener: { envoyConfig: { name: 'x' }, name: 'y' }, rules: { http: [{}] } }],
    }),
  },
  {
    title: 'serverNames with HTTP rules',
    spec: egress({
      toPorts: [
        { ports: [{ port: '443', protocol: 'TCP' }], serverNames: ['a.example.net'], rules: { http: [{}] } },
      ],
    }),
  },
  {
    title: 'ICMP with ports',
    spec: egress({ icmps: [{ fields: [{ type: 8 }] }], toPorts: [{ ports: WEB }] }),
  },
  {
    title: 'a port that is neither number nor name',
    spec: egress({ toPorts: [{ ports: [{ port: 'a_b', protocol: 'TCP' }] }] }),
  },
  {
    title: 'a port beyond 65535',
    spec: egress({ toPorts: [{ ports: [{ port: '65536', protocol: 'TCP' }] }] }),
  },
  { title: 'no port', spec: egress({ toPorts: [{ ports: [{ protocol: 'TCP' }] }] }) },
  { title: 'a port of GRE', spec: egress({ toPorts: [{ ports: [{ port: '80', protocol: 'GRE' }] }] }) },
  { title: 'an address with leading zeros', spec: egress({ toCIDR: ['203.0.113.010/32'] }) },
  {
    title: 'an except outside its range',
    spec: egress({ toCIDRSet: [{ cidr: CIDR, except: ['198.51.100.0/24'] }] }),
  },
  {
    title: 'an except wider than its range',
    spec: egress({ toCIDRSet: [{ cidr: CIDR, except: ['203.0.0.0/16'] }] }),
  },
  {
    title: 'an except of another family',
    spec: egress({ toCIDRSet: [{ cidr: '0.0.0.0/0', except: ['fd00::/8'] }] }),
  },
  {
    title: 'In without values',
    spec: { endpointSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] }, egress: [{}] },
  },
  {
    title: 'In with an empty list',
    spec: egress({ toEndpoints: [{ matchExpressions: [{ key: 'a', operator: 'In', values: [] }] }] }),
  },
  {
    title: 'Exists with values',
    spec: {
      endpointSelector: { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] },
      egress: [{}],
    },
  },
  {
    title: 'a label key with two slashes',
    spec: { endpointSelector: { matchLabels: { 'a/b/c': 'd' } }, egress: [{}] },
  },
  {
    title: 'an expression value with spaces',
    spec: egress({ toEndpoints: [{ matchExpressions: [{ key: 'a', operator: 'In', values: ['b c'] }] }] }),
  },
  {
    title: 'a label key of 64 signs',
    spec: { endpointSelector: { matchLabels: { ['k'.repeat(64)]: 'b' } }, egress: [{}] },
  },
  {
    title: 'a label key that ends with a dash',
    spec: egress({ toEndpoints: [{ matchExpressions: [{ key: 'a-', operator: 'Exists' }] }] }),
  },
  {
    title: 'a label key with an upper-case prefix',
    spec: egress({ toEndpoints: [{ matchLabels: { 'Example.com/a': 'b' } }] }),
  },
]
