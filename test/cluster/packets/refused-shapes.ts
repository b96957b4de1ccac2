/** One part of a policy's `spec` that some reader of it may refuse. */
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

export const CANDIDATES: readonly PolicyShape[] = [
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
  { title: 'no direction at all', spec: ALL },
  { title: 'empty directions', spec: { ...ALL, egress: [], ingress: [] } },
  { title: 'no endpointSelector', spec: { egress: [{}] } },
  { title: 'a nodeSelector', spec: { nodeSelector: {}, egress: [{}] } },
  { title: 'both selectors', spec: { ...ALL, nodeSelector: {}, egress: [{}] } },
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
    title: 'DNS rules with HTTP rules',
    spec: egress({
      toPorts: [{ ports: [{ port: '53', protocol: 'TCP' }], rules: { dns: [NAME], http: [{}] } }],
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
    title: 'an empty server name',
    spec: egress({ toPorts: [{ ports: [{ port: '443', protocol: 'TCP' }], serverNames: [''] }] }),
  },
  {
    title: 'ICMP with ports',
    spec: egress({ icmps: [{ fields: [{ type: 8 }] }], toPorts: [{ ports: WEB }] }),
  },
  { title: 'ICMP of a wrong family', spec: egress({ icmps: [{ fields: [{ family: 'IPv5', type: 8 }] }] }) },
  {
    title: 'a port that is neither number nor name',
    spec: egress({ toPorts: [{ ports: [{ port: 'a_b', protocol: 'TCP' }] }] }),
  },
  {
    title: 'a port beyond 65535',
    spec: egress({ toPorts: [{ ports: [{ port: '65536', protocol: 'TCP' }] }] }),
  },
  { title: 'an empty port', spec: egress({ toPorts: [{ ports: [{ port: '', protocol: 'TCP' }] }] }) },
  { title: 'no port', spec: egress({ toPorts: [{ ports: [{ protocol: 'TCP' }] }] }) },
  {
    title: 'an endPort below its port',
    spec: egress({ toPorts: [{ ports: [{ port: '80', endPort: 70, protocol: 'TCP' }] }] }),
  },
  {
    title: 'an endPort beyond 65535',
    spec: egress({ toPorts: [{ ports: [{ port: '80', endPort: 70000, protocol: 'TCP' }] }] }),
  },
  {
    title: 'an endPort of a named port',
    spec: egress({ toPorts: [{ ports: [{ port: 'web', endPort: 90, protocol: 'TCP' }] }] }),
  },
  {
    title: 'a port of an unknown protocol',
    spec: egress({ toPorts: [{ ports: [{ port: '80', protocol: 'QUIC' }] }] }),
  },
  { title: 'a port of SCTP', spec: egress({ toPorts: [{ ports: [{ port: '80', protocol: 'SCTP' }] }] }) },
  { title: 'a port of GRE', spec: egress({ toPorts: [{ ports: [{ port: '80', protocol: 'GRE' }] }] }) },
  { title: 'a port of ICMP', spec: egress({ toPorts: [{ ports: [{ port: '80', protocol: 'ICMP' }] }] }) },
  {
    title: '41 ports',
    spec: egress({
      toPorts: [
        { ports: Array.from({ length: 41 }, (_, index) => ({ port: String(index + 1), protocol: 'TCP' })) },
      ],
    }),
  },
  { title: 'an address that is none', spec: egress({ toCIDR: ['300.0.113.0/24'] }) },
  { title: 'an address that only begins well', spec: egress({ toCIDR: ['203.0.113.0/240'] }) },
  { title: 'an address with leading zeros', spec: egress({ toCIDR: ['203.0.113.010/32'] }) },
  { title: 'an address of four numbers beyond a byte', spec: egress({ toCIDR: ['203.0.113.999/24'] }) },
  { title: 'a plain address in a set', spec: egress({ toCIDRSet: [{ cidr: '203.0.113.1' }] }) },
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
    title: 'an except that is a plain address',
    spec: egress({ toCIDRSet: [{ cidr: CIDR, except: ['203.0.113.1'] }] }),
  },
  { title: 'a CIDR and a group of CIDRs', spec: egress({ toCIDRSet: [{ cidr: CIDR, cidrGroupRef: 'g' }] }) },
  { title: 'a set without a CIDR', spec: egress({ toCIDRSet: [{ except: [CIDR] }] }) },
  { title: 'an unknown entity', spec: egress({ toEntities: ['internet'] }) },
  { title: 'an entity only for ingress', spec: egress({ toEntities: ['ingress'] }) },
  {
    title: 'a name and a pattern in one',
    spec: egress({ toFQDNs: [{ matchName: 'a.example.net', matchPattern: '*.example.net' }] }),
  },
  { title: 'neither a name nor a pattern', spec: egress({ toFQDNs: [{}] }) },
  { title: 'an empty name', spec: egress({ toFQDNs: [{ matchName: '' }] }) },
  { title: 'a name with a star', spec: egress({ toFQDNs: [{ matchName: '*.example.net' }] }) },
  { title: 'a pattern with other signs', spec: egress({ toFQDNs: [{ matchPattern: '[a-z].example.net' }] }) },
  { title: 'a pattern with stars inside', spec: egress({ toFQDNs: [{ matchPattern: 'a.**.example.net' }] }) },
  {
    title: 'a selector with an unknown operator',
    spec: {
      endpointSelector: { matchExpressions: [{ key: 'a', operator: 'Is', values: ['b'] }] },
      egress: [{}],
    },
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
    title: 'a label value with spaces',
    spec: { endpointSelector: { matchLabels: { a: 'b c' } }, egress: [{}] },
  },
  {
    title: 'a label key with two slashes',
    spec: { endpointSelector: { matchLabels: { 'a/b/c': 'd' } }, egress: [{}] },
  },
  {
    title: 'a label value beyond 63 signs',
    spec: { endpointSelector: { matchLabels: { a: 'b'.repeat(64) } }, egress: [{}] },
  },
  {
    title: 'an expression value with spaces',
    spec: egress({ toEndpoints: [{ matchExpressions: [{ key: 'a', operator: 'In', values: ['b c'] }] }] }),
  },
  { title: 'toGroups without a provider', spec: egress({ toGroups: [{}] }) },
  {
    title: 'required authentication',
    spec: ingress({ fromEndpoints: [POD], authentication: { mode: 'required' } }),
  },
  { title: 'a plain good rule', spec: egress({ toEndpoints: [POD], toPorts: [{ ports: WEB }] }) },
  {
    title: 'a label value with spaces in toEndpoints',
    spec: egress({ toEndpoints: [{ matchLabels: { a: 'b c' } }] }),
  },
  {
    title: 'reserved endpoint label',
    spec: egress({ toEndpoints: [{ matchLabels: { 'reserved:host': '' } }] }),
  },
  { title: 'pattern star star', spec: egress({ toFQDNs: [{ matchPattern: '**' }] }) },
  { title: 'pattern upper', spec: egress({ toFQDNs: [{ matchPattern: '*.Example.NET' }] }) },
  { title: 'pattern **.x', spec: egress({ toFQDNs: [{ matchPattern: '**.example.net' }] }) },
  { title: 'empty toFQDNs with toPorts', spec: egress({ toFQDNs: [], toPorts: [{ ports: WEB }] }) },
  { title: 'empty toEndpoints', spec: egress({ toEndpoints: [] }) },
  {
    title: 'dns empty list',
    spec: egress({ toEndpoints: [POD], toPorts: [{ ports: DNS, rules: { dns: [] } }] }),
  },
  { title: 'dns on port 80', spec: egress({ toPorts: [{ ports: WEB, rules: { dns: [NAME] } }] }) },
  {
    title: 'deny with rules',
    spec: { ...ALL, egressDeny: [{ toPorts: [{ ports: WEB, rules: { dns: [NAME] } }] }] },
  },
  { title: 'deny toFQDNs', spec: { ...ALL, egressDeny: [{ toFQDNs: [NAME] }] } },
  { title: 'toRequires', spec: egress({ toRequires: [POD] }) },
]
