import { names, SandboxKind } from '../../contracts/names.ts'
import { formatAddress, parseRange } from '../../reachability/address.ts'
import type { ClusterFacts, End, PodFacts } from '../../reachability/model.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { workloads } from '../workloads.ts'
import { podsOf } from './pods-of.ts'

/** One endpoint of the matrix: a rendered pod, or another pod or host that could connect to it. */
export interface Endpoint {
  readonly id: EndpointId
  readonly title: string
  readonly end: Exclude<End, { readonly kind: 'name' }>
}

export const ENDPOINTS = {
  agent: 'sandbox of class agent',
  command: 'sandbox of class command',
  'other agent': 'another sandbox of class agent',
  'other command': 'another sandbox of class command',
  'stray sandbox': 'pod without labels among the sandboxes',
  api: 'API',
  'database setup': "Job that creates the API's role",
  'api gateway': 'gateway of the API',
  'preview gateway': 'gateway of previews',
  'stray control plane': 'pod without labels in the control plane',
  proxy: 'egress proxy',
  'stray egress': 'pod without labels among the proxies',
  dns: 'cluster DNS',
  monitoring: 'monitoring',
  'gateway controller': "gateways' controller",
  elsewhere: 'pod of another namespace',
  'false api': "pod of another namespace with the API's labels",
  'false database setup': "pod of another namespace with the labels of the Job that creates the API's role",
  'false api gateway': "pod of another namespace with the labels of the API's gateway",
  'false preview gateway': 'pod of another namespace with the labels of the gateway of previews',
  'false agent': 'pod of another namespace with the labels of class agent',
  'false command': 'pod of another namespace with the labels of class command',
  'false proxy': "pod of another namespace with the proxy's labels",
  'own node': 'node of the sandboxes and the proxy',
  'other node': 'another node',
  'api server': 'API server',
  'unknown api server': 'API server at an address that the outputs do not name',
  database: 'database',
  metadata: 'metadata service 169.254.169.254',
  internet: 'any other address outside',
} as const
export type EndpointId = keyof typeof ENDPOINTS

/** Pods of other namespaces that copy our labels. Namespace owners can put any label on their pods. */
export const LABEL_COPIES: readonly EndpointId[] = [
  'false api',
  'false database setup',
  'false api gateway',
  'false preview gateway',
  'false agent',
  'false command',
  'false proxy',
]

/** Namespaces and names of endpoints that the tree does not render. */
const OTHER_NAMESPACE = 'other-namespace'
const OWN_NODE = 'node-of-sandboxes'
const OTHER_NODE = 'another-node'
const METADATA = '169.254.169.254'
const UNKNOWN_API_SERVER = '203.0.113.99'

export interface Topology {
  readonly facts: ClusterFacts
  readonly endpoints: readonly Endpoint[]
}

/**
 * Collects the endpoints of an environment: the pods of its objects, and everything else that could connect
 * to them.
 */
export function topologyOf(objects: readonly KubeObject[], environment: Environment): Topology {
  const pods = podEndpoints(objects, environment)
  const addressed = withAddresses(
    pods.map(({ pod }) => pod),
    environment,
  )
  const node = (name: string, cidr: string, place: bigint) => ({ name, ips: [addressIn(cidr, place)] })
  const [nodeCidr = ''] = environment.infra.network.nodeCidrs
  const [apiServerCidr = ''] = environment.infra.apiServer.cidrs
  const facts: ClusterFacts = {
    namespaces: namespacesOf(objects, addressed),
    pods: addressed,
    nodes: [node(OWN_NODE, nodeCidr, 10n), node(OTHER_NODE, nodeCidr, 11n)],
    apiServer: { ips: [addressIn(apiServerCidr, 4n), UNKNOWN_API_SERVER] },
    resolver: { namespace: workloads(environment.slice).clusterDns.namespace, name: 'dns' },
  }
  const fromPods = pods.map(({ id, pod: { namespace, name } }) =>
    endpoint(id, { kind: 'pod', namespace, name }),
  )
  return { facts, endpoints: [...fromPods, ...otherEndpoints(facts, environment)] }
}

const endpoint = (id: EndpointId, end: Endpoint['end']): Endpoint => ({ id, title: ENDPOINTS[id], end })

function otherEndpoints(facts: ClusterFacts, { infra }: Environment): Endpoint[] {
  const at = (id: EndpointId, ip: string) => endpoint(id, { kind: 'address', ip })
  const [own, other] = facts.nodes ?? []
  return [
    at('own node', own?.ips[0] ?? ''),
    at('other node', other?.ips[0] ?? ''),
    endpoint('api server', { kind: 'entity', entity: 'kube-apiserver' }),
    at('unknown api server', UNKNOWN_API_SERVER),
    at('database', addressIn(infra.database.cidr, 4n)),
    at('metadata', METADATA),
    endpoint('internet', { kind: 'entity', entity: 'world' }),
  ]
}

interface PodEndpoint {
  readonly id: EndpointId
  readonly pod: PodFacts
}

/**
 * Takes labels from the rendered templates if there are any, so that a selector with a wrong label fails an
 * assertion.
 */
function podEndpoints(objects: readonly KubeObject[], environment: Environment): PodEndpoint[] {
  const { slice, infra } = environment
  const { api, databaseSetup, apiGateway, previewGateway, egressProxy, sandbox, clusterDns } =
    workloads(slice)
  const { namespaces, pool } = names(slice)
  const rendered = podsOf(objects)
  const ours = ({
    namespace,
    labels,
    name,
  }: {
    namespace: string
    labels: PodFacts['labels']
    name: string
  }) =>
    rendered.find((pod) => pod.namespace === namespace && pod.name === name) ?? { namespace, name, labels }
  // Job names end with a hash of the spec, so the Job is found by prefix.
  const job = (workload: Omit<PodFacts, 'ips'>) =>
    rendered.find(
      (pod) => pod.namespace === workload.namespace && pod.name.startsWith(`${workload.name}-`),
    ) ?? workload
  const stray = (id: EndpointId, namespace: string): PodEndpoint => ({
    id,
    pod: { namespace, name: 'stray', labels: {} },
  })
  const sandboxes = SandboxKind.options.flatMap((kind): PodEndpoint[] => {
    const pod = { ...ours({ ...sandbox(kind), name: pool(kind) }), node: OWN_NODE }
    return [
      { id: kind, pod },
      { id: `other ${kind}`, pod: { ...pod, name: `${pod.name}-other` } },
    ]
  })
  const elsewhere = (id: EndpointId, namespace: string, labels: PodFacts['labels'] = {}): PodEndpoint => ({
    id,
    pod: { namespace, name: id.replaceAll(' ', '-'), labels },
  })
  return [
    ...sandboxes,
    stray('stray sandbox', namespaces.sandboxes),
    { id: 'api', pod: ours(api) },
    { id: 'database setup', pod: job(databaseSetup) },
    { id: 'api gateway', pod: gatewayPod(apiGateway) },
    { id: 'preview gateway', pod: gatewayPod(previewGateway) },
    stray('stray control plane', namespaces.controlPlane),
    { id: 'proxy', pod: { ...ours(egressProxy), node: OWN_NODE } },
    stray('stray egress', namespaces.egress),
    elsewhere('dns', clusterDns.namespace, clusterDns.labels),
    elsewhere('monitoring', infra.monitoring.namespace),
    elsewhere('gateway controller', infra.gateway.controller.namespace),
    elsewhere('elsewhere', OTHER_NAMESPACE),
    elsewhere('false api', OTHER_NAMESPACE, api.labels),
    elsewhere('false database setup', OTHER_NAMESPACE, databaseSetup.labels),
    elsewhere('false api gateway', OTHER_NAMESPACE, apiGateway.labels),
    elsewhere('false preview gateway', OTHER_NAMESPACE, previewGateway.labels),
    elsewhere('false agent', OTHER_NAMESPACE, sandbox('agent').labels),
    elsewhere('false command', OTHER_NAMESPACE, sandbox('command').labels),
    elsewhere('false proxy', OTHER_NAMESPACE, egressProxy.labels),
  ]
}

/** The Gateway implementation creates these pods, so no tree contains them. */
const gatewayPod = ({ namespace, labels, name }: Omit<PodFacts, 'ips'>): PodFacts => ({
  namespace,
  name: `gateway-${name}`,
  labels,
})

function namespacesOf(objects: readonly KubeObject[], pods: readonly PodFacts[]): ClusterFacts['namespaces'] {
  const rendered = objects
    .filter(({ kind }) => kind === 'Namespace')
    .map(({ metadata: { name, labels = {} } }) => ({ name, labels }))
  const others = new Set(pods.map(({ namespace }) => namespace))
  for (const { name } of rendered) others.delete(name)
  return [...rendered, ...[...others].map((name) => ({ name }))]
}

/**
 * Assigns addresses from the pod range. A CIDR rule must not select a pod, and only a pod with an address in
 * the range can show that.
 */
function withAddresses(pods: readonly PodFacts[], { infra }: Environment): PodFacts[] {
  const [cidr = ''] = infra.network.podCidrs
  return pods.map((pod, index) => ({ ...pod, ips: [addressIn(cidr, BigInt(index + 10))] }))
}

/** Returns the address at an offset into a range, or the last address of a shorter range. */
export function addressIn(cidr: string, place: bigint): string {
  const range = parseRange(cidr)
  if (range === undefined) throw new Error(`"${cidr}" is no range of addresses.`)
  const { family, first, last } = range
  const wanted = first + place
  if (wanted > last) return formatAddress({ family, value: last })
  return formatAddress({ family, value: wanted })
}
