import {
  addressIn,
  ENDPOINTS,
  type Endpoint,
  type EndpointId,
  LABEL_COPIES,
} from '../../../charts-src/access-matrix/endpoints.ts'
import {
  expectedNames,
  expectedOnSide,
  isOurs,
  type Opening,
  openings,
  type Side,
  SOURCES,
} from '../../../charts-src/access-matrix/expectations.ts'
import type { ClusterFacts, End, Probe } from '../../../reachability/model.ts'
import { ALL_PORTS, hasPorts, intersect, type PortSet, portSet } from '../../../reachability/port-set.ts'
import type { Cell } from './cell.ts'
import { type CommittedTree, namesIn } from './committed-tree.ts'
import type { ProberName, Question } from './questions.ts'
import type { Stage, StagePlan } from './stage.ts'

const SANDBOXES: readonly EndpointId[] = ['agent', 'command', 'other agent', 'other command']
export const isSandbox = (id: EndpointId): boolean => SANDBOXES.includes(id)

/**
 * Ports that must be open from one endpoint to another: the intersection of both sides where both have policies.
 */
function expectedPorts(all: readonly Opening[], from: EndpointId, to: EndpointId): PortSet {
  const of = (side: Side, id: EndpointId) =>
    isOurs(id) ? expectedOnSide(all, { from, to }, side) : ALL_PORTS
  return intersect(of('leaving', from), of('entering', to))
}

/** For each opening one port inside and one outside of it, and the ports of other servers in a cluster. */
const TCP_PORTS = [
  80, 443, 853, 2999, 3000, 3128, 5432, 6443, 8080, 8081, 8082, 8083, 8087, 8088, 8089, 9000, 9001, 9090,
  15012, 15021,
]
const UDP_PORTS = [80, 443, 3000, 8088]
const PACKETS = [
  ...TCP_PORTS.map((port) => ({ protocol: 'TCP', port }) as const),
  ...UDP_PORTS.map((port) => ({ protocol: 'UDP', port }) as const),
]

/** Excluded endpoints: the test has only one node and one API server, and the questions about names cover the resolver. */
const NOT_PROBED: readonly EndpointId[] = ['other node', 'unknown api server', 'dns']
/** Other resolvers exist outside the cluster, and a query to one of them can carry any data. */
const DNS_PORT = 53
const ADDRESS_PORTS = [DNS_PORT, 80, 443, 853]
const API_SERVICE = '10.96.0.1'
const INTERNET = '203.0.113.250'
const METADATA = '169.254.169.254'
/** One address of each closed range. Without policies, the probes can reach these addresses. */
const FORBIDDEN = [
  METADATA,
  '169.254.1.1',
  '168.63.129.16',
  '10.200.0.10',
  '172.16.0.10',
  '192.168.250.10',
  '100.64.0.10',
] as const
/** Listed names whose owner returns a forbidden address. */
const REBOUND: Readonly<Record<string, string>> = {
  'api.individual.githubcopilot.com': METADATA,
  'api.business.githubcopilot.com': '10.200.0.10',
  'api.enterprise.githubcopilot.com': '100.64.0.10',
}
/** The addresses of all other names. */
const NAMED = '203.0.113.'
const STRANGE_NAMES = ['example.com', 'api.github.com.example.net', 'raw.githubusercontent.com']

const listening = { tcp: TCP_PORTS, udp: UDP_PORTS }
const databaseOf = ({ environment }: CommittedTree) => addressIn(environment.infra.database.cidr, 4n)

/** Everybody of all trees at once: bases are the same pods under other policies. */
export function treesStage(trees: readonly CommittedTree[]): StagePlan {
  const namespaces = new Map(
    trees.flatMap(({ cast }) => cast.facts.namespaces.map((one) => [one.name, one] as const)),
  )
  const ranges = [...FORBIDDEN, ...trees.map(databaseOf)].map((ip) => `${ip}/32`)
  return {
    namespaces: [...namespaces.values()].filter(({ name }) => name !== 'kube-system'),
    pods: [...castOf(trees).values()],
    outside: {
      addresses: [...new Set([...FORBIDDEN, ...trees.map(databaseOf)]), '203.0.113.0/24', INTERNET],
      ranges: [...new Set(ranges), '203.0.113.0/24'],
    },
    records: Object.fromEntries(addresses(trees)),
    listening: { tcp: [...TCP_PORTS, DNS_PORT], udp: [...UDP_PORTS, DNS_PORT] },
  }
}

function castOf(trees: readonly CommittedTree[]): Map<string, StagePlan['pods'][number]> {
  const pods = new Map<string, StagePlan['pods'][number]>()
  for (const pod of trees.flatMap((tree) => actorsOf(tree).flatMap((actor) => podOf(tree, actor) ?? []))) {
    const key = `${pod.namespace}/${pod.name}`
    const before = pods.get(key)
    if (before && JSON.stringify(before.labels) !== JSON.stringify(pod.labels))
      throw new Error(`${key} is another pod in each environment: these trees need a stage each`)
    pods.set(key, pod)
  }
  return pods
}

const actorsOf = ({ cast }: CommittedTree): Endpoint[] =>
  cast.endpoints.filter(({ id }) => !NOT_PROBED.includes(id))

/** The pod of an actor. An impostor, which has our labels in another namespace, is a separate pod for each slice. */
function podOf({ cast, environment }: CommittedTree, { id, end }: Endpoint) {
  if (end.kind !== 'pod') return undefined
  const { namespace, name } = end
  const labels = cast.facts.pods.find((pod) => pod.namespace === namespace && pod.name === name)?.labels ?? {}
  const isImpostor = LABEL_COPIES.includes(id)
  // Each class runs once on each runtime.
  const runtime = id === 'agent' || id === 'command' ? ('gvisor' as const) : ('runc' as const)
  return {
    namespace,
    name: isImpostor ? `${name}-${environment.slice.kind}` : name,
    labels,
    runtime,
    listening,
  }
}

function addresses(trees: readonly CommittedTree[]): Map<string, string> {
  const names = [...new Set([...trees.flatMap(namesIn), ...STRANGE_NAMES])].sort()
  const own = names.map((name, index) => [name, `${NAMED}${index + 1}`] as const)
  const databases = trees.map((tree) => [tree.environment.infra.database.host, databaseOf(tree)] as const)
  return new Map([...own, ...databases, ...Object.entries(REBOUND)])
}

/** The facts with the real addresses of the pods. Pods outside this test environment are omitted. */
export function treeFacts(stage: Stage, tree: CommittedTree): ClusterFacts {
  const { pod: resolver, labels } = stage.dns
  const pods = actorsOf(tree).flatMap((actor) => podOf(tree, actor) ?? [])
  return {
    namespaces: tree.cast.facts.namespaces,
    pods: [
      ...pods.map(({ namespace, name, labels: own }) => ({
        namespace,
        name,
        labels: own,
        ips: [stage.pod(namespace, name).ip],
        node: stage.node.name,
      })),
      { ...resolver, labels, ips: [resolver.ip], node: stage.node.name },
    ],
    nodes: [{ name: stage.node.name, ips: [stage.node.ip] }],
    apiServer: { ips: [stage.apiServer.ip] },
    resolver: { namespace: resolver.namespace, name: resolver.name },
  }
}

/** A question with the expectation from the table in `docs/network.md`, in addition to the evaluator's result. */
export interface TreeQuestion extends Question {
  readonly from: EndpointId
  /** Undefined if the target is an address or a name, not an actor. */
  readonly to?: EndpointId
  readonly isMeant: boolean
}

/** Every cell of a tree's matrix that can be probed: source, target, port, protocol and name. */
export function treeCells(
  stage: Stage,
  tree: CommittedTree,
  trees: readonly CommittedTree[],
): TreeQuestion[] {
  return actorsOf(tree)
    .filter(({ id }) => SOURCES.includes(id))
    .flatMap((from) => {
      const source = { from, prober: proberOf(tree, from), end: endOf(stage, tree, from) }
      return [
        ...pairCells(stage, tree, source),
        ...(isOurs(from.id) ? addressCells(tree, source) : []),
        ...(isSandbox(from.id) ? [serviceCell(source)] : []),
        ...(isOurs(from.id) ? nameCells(tree, source, addresses(trees)) : []),
      ]
    })
}

interface Source {
  readonly from: Endpoint
  readonly prober: ProberName
  readonly end: Probe['from']
}

function pairCells(stage: Stage, tree: CommittedTree, { from, prober, end }: Source): TreeQuestion[] {
  const all = openings(tree.environment, tree.egress)
  return actorsOf(tree)
    .filter(({ id }) => id !== from.id)
    .filter(({ id }) => isOurs(from.id) || isOurs(id))
    .flatMap((to) => {
      const target = endOf(stage, tree, to)
      const host = hostOf(stage, target)
      // All pods are on the one node here, and a node reaches its own.
      const isOnNode = from.id === 'own node' && to.end.kind === 'pod'
      const wanted = isOnNode ? ALL_PORTS : expectedPorts(all, from.id, to.id)
      return PACKETS.map(({ protocol, port }): TreeQuestion => {
        const isMeant = hasPorts(intersect(wanted, portSet({ [protocol]: [[port, port]] })))
        const probe: Probe = { from: end, to: target, protocol, port }
        return {
          from: from.id,
          to: to.id,
          title: `${from.title} → ${to.title}`,
          prober,
          probe,
          cell: { protocol, host, port },
          isMeant,
        }
      })
    })
}

function addressCells(tree: CommittedTree, { from, prober, end }: Source): TreeQuestion[] {
  const toInternet = expectedPorts(openings(tree.environment, tree.egress), from.id, 'internet')
  return [...FORBIDDEN, INTERNET].flatMap((ip) =>
    ADDRESS_PORTS.flatMap((port) =>
      (['TCP', 'UDP'] as const).map((protocol): TreeQuestion => {
        const probe: Probe = { from: end, to: { kind: 'address', ip }, protocol, port }
        const cell = { protocol, host: ip, port }
        const target = ip === INTERNET ? 'the internet' : 'a forbidden address'
        const isMeant =
          ip === INTERNET && hasPorts(intersect(toInternet, portSet({ [protocol]: [[port, port]] })))
        return { from: from.id, title: `${from.title} → ${target}`, prober, probe, cell, isMeant }
      }),
    ),
  )
}

/**
 * The Service address of the API server is translated only after the packet has left the pod, which the evaluator does
 * not model.
 */
function serviceCell({ from, prober }: Source): TreeQuestion {
  const cell: Cell = { protocol: 'TCP', host: API_SERVICE, port: 443 }
  return { from: from.id, title: `${from.title} → Service of the API server`, prober, cell, isMeant: false }
}

function nameCells(
  tree: CommittedTree,
  { from, prober, end }: Source,
  known: ReadonlyMap<string, string>,
): TreeQuestion[] {
  const listed = expectedNames(tree.environment, tree.egress, from.id)
  // The policies let the proxy look up and reach any name of the internet. The proxy itself judges names.
  const isAnyName = tree.environment.egress.mode === 'proxy' && from.id === 'proxy'
  return [...known].flatMap(([name, ip]) =>
    [80, 443].map((port): TreeQuestion => {
      const probe: Probe = { from: end, to: { kind: 'name', name, ip }, protocol: 'TCP', port }
      const isListed = isAnyName ? isOutside(ip, tree) : listed.get(name)?.includes(port)
      const isMeant = (isListed ?? false) && !(name in REBOUND)
      const cell: Cell = { protocol: 'TCP', host: name, port }
      return { from: from.id, title: `${from.title} → ${name}`, prober, probe, cell, isMeant }
    }),
  )
}

/** Ranges of the documentation. The database of the local tree is in one, so the other trees see it as the internet. */
const OUTSIDE = [NAMED, '198.51.100.']
const isOutside = (ip: string, tree: CommittedTree): boolean =>
  OUTSIDE.some((range) => ip.startsWith(range)) && ip !== databaseOf(tree)

const ADDRESSES: Partial<Record<EndpointId, string>> = { metadata: METADATA, internet: INTERNET }

function endOf(stage: Stage, tree: CommittedTree, actor: Endpoint): Exclude<End, { kind: 'name' }> {
  const pod = podOf(tree, actor)
  if (pod) return { kind: 'pod', namespace: pod.namespace, name: pod.name }
  const { id } = actor
  if (id === 'own node') return { kind: 'address', ip: stage.node.ip }
  if (id === 'api server') return { kind: 'address', ip: stage.apiServer.ip }
  if (id === 'database') return { kind: 'address', ip: databaseOf(tree) }
  const ip = ADDRESSES[id]
  if (ip === undefined) throw new Error(`${ENDPOINTS[id]} has no place on this stage`)
  return { kind: 'address', ip }
}

function hostOf(stage: Stage, end: Exclude<End, { kind: 'name' }>): string {
  if (end.kind === 'pod') return stage.pod(end.namespace, end.name).ip
  if (end.kind === 'address') return end.ip
  throw new Error(`${end.entity} has no address`)
}

function proberOf(tree: CommittedTree, actor: Endpoint): ProberName {
  const pod = podOf(tree, actor)
  if (pod) return [pod.namespace, pod.name]
  if (actor.id === 'own node') return 'node'
  return actor.id === 'api server' ? 'api server' : 'outside'
}
