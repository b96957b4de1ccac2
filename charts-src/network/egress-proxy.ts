import type { Construct } from 'constructs'
import { COMPONENT_LABEL } from '../../contracts/labels.ts'
import { names, SandboxKind } from '../../contracts/names.ts'
import { EGRESS_CONTROL_PORT, EGRESS_HEALTH_PORT, EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { covers, parseRange } from '../../reachability/address.ts'
import type { Environment } from '../environment/schema.ts'
import type {
  CiliumNetworkPolicySpecEgressDenyToPorts,
  CiliumNetworkPolicySpecEgressToCidrSet,
} from '../imports/cilium.js'
import { workloads } from '../workloads.ts'
import { forbiddenRanges } from './forbidden.ts'
import {
  addCiliumPolicy,
  addNetworkPolicy,
  endpoint,
  namespacePeer,
  type PodsOf,
  podPeer,
  tcp,
  tcpPorts,
} from './policy-objects.ts'

import { type PrivateEndpoint, privateEndpoints } from './private-endpoints.ts'

type Ports = CiliumNetworkPolicySpecEgressDenyToPorts

const MAX_PORT = 65_535
/** Ports of resolvers on the internet: a query can carry any data, and no destination may name these ports. */
const RESOLVER_PORTS = [53, 853]
const LOOKUPS: Ports = {
  ports: [
    { port: '53', protocol: 'UDP' },
    { port: '53', protocol: 'TCP' },
  ],
}

/** Adds the policies of the proxy's namespace, if the environment uses a proxy. */
export function addEgressProxy(scope: Construct, environment: Environment, egress: ResolvedEgress): void {
  if (environment.egress.mode !== 'proxy') return
  const { egressProxy, sandbox } = workloads(environment.slice)
  addNetworkPolicy(scope, placed(environment, 'proxy-ingress'), {
    podSelector: { matchLabels: egressProxy.labels },
    ingress: [
      {
        from: SandboxKind.options.map((kind) => podPeer(sandbox(kind))),
        ports: [tcp(EGRESS_PROXY_PORT)],
      },
      { from: [namespacePeer(environment.infra.monitoring.namespace)], ports: [tcp(EGRESS_HEALTH_PORT)] },
    ],
  })
  addEgress(scope, environment, privateEndpoints(environment, egress))
}

const placed = ({ slice }: Environment, name: string) => ({
  slice,
  namespace: workloads(slice).egressProxy.namespace,
  name,
})

/**
 * The API, the resolver, the internet, and the private endpoints of the list. The proxy itself decides which names and ports
 * a sandbox reaches; this policy keeps it away from all other addresses, even if another policy allows everything.
 */
function addEgress(scope: Construct, environment: Environment, endpoints: readonly PrivateEndpoint[]): void {
  const { slice } = environment
  const { api, clusterDns, egressProxy } = workloads(slice)
  const { sandboxes } = names(slice).namespaces
  addCiliumPolicy(scope, placed(environment, 'proxy-egress'), {
    endpointSelector: { matchLabels: egressProxy.labels },
    egress: [
      { toEndpoints: [endpoint(api)], toPorts: [tcpPorts(EGRESS_CONTROL_PORT)] },
      { toEndpoints: [endpoint(clusterDns)], toPorts: [LOOKUPS] },
      { toCidrSet: internet(environment), toPorts: [allPortsBut(RESOLVER_PORTS)] },
      ...endpoints.map(({ cidr, ports }) => ({ toCidrSet: [{ cidr }], toPorts: [tcpPorts(...ports)] })),
    ],
    egressDeny: [
      { toCidrSet: forbiddenRanges(environment).map(({ cidr }) => allBut(cidr, endpoints)) },
      { toEntities: ['host', 'remote-node', 'kube-apiserver'] },
      { toEndpoints: [endpoint({ namespace: sandboxes, labels: {} })] },
      { toEndpoints: [podsBeside(api)] },
      { toEndpoints: [endpoint(api)], toPorts: [everyPortBut(EGRESS_CONTROL_PORT)] },
    ],
  })
}

/** A forbidden range without the private endpoints in it. */
function allBut(cidr: string, endpoints: readonly PrivateEndpoint[]) {
  const except = [...new Set(endpoints.map((one) => one.cidr))].filter((inner) => isIn(inner, cidr))
  return except.length === 0 ? { cidr } : { cidr, except }
}

/** Every address without the forbidden ranges, in the address families that pods have. */
function internet(environment: Environment): CiliumNetworkPolicySpecEgressToCidrSet[] {
  const families = [...new Set(environment.infra.network.podCidrs.map(isVersion6))]
  const forbidden = outermost(forbiddenRanges(environment).map(({ cidr }) => cidr))
  return families.map((isSix) => ({
    cidr: isSix ? '::/0' : '0.0.0.0/0',
    except: forbidden.filter((cidr) => isVersion6(cidr) === isSix),
  }))
}

const isVersion6 = (cidr: string) => cidr.includes(':')

/** Ranges that lie in no other range of the list. */
function outermost(cidrs: readonly string[]): string[] {
  const isCovered = (inner: string) => cidrs.some((outer) => outer !== inner && isIn(inner, outer))
  return cidrs.filter((cidr) => !isCovered(cidr))
}

function isIn(inner: string, outer: string): boolean {
  const [a, b] = [parseRange(outer), parseRange(inner)]
  return a !== undefined && b !== undefined && covers(a, b)
}

function allPortsBut(closed: readonly number[]): Ports {
  const edges = closed.toSorted((a, b) => a - b)
  const starts = [1, ...edges.map((port) => port + 1)]
  const ends = [...edges.map((port) => port - 1), MAX_PORT]
  return {
    ports: starts.map((port, index) => ({ port: String(port), endPort: ends[index], protocol: 'TCP' })),
  }
}

function everyPortBut(port: number): Ports {
  // Port 0 stands for every port of the protocol.
  return { ports: [...(allPortsBut([port]).ports ?? []), { port: '0', protocol: 'UDP' }] }
}

/** The pods of a workload's namespace that run another component, or none. */
const podsBeside = ({ namespace, labels }: PodsOf) => ({
  ...endpoint({ namespace, labels: {} }),
  matchExpressions: [
    { key: `k8s:${COMPONENT_LABEL}`, operator: 'NotIn' as const, values: [labels[COMPONENT_LABEL] ?? ''] },
  ],
})
