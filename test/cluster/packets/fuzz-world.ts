import type { ClusterFacts, End, Probe } from '../../../reachability/model.ts'
import type { Question } from './questions.ts'
import type { Stage, StagePlan } from './stage.ts'

/**
 * Constants that generated policies and probes share. A policy set is written for one namespace, and works in any
 * namespace of the same kind.
 */
export const OWN = 'fuzz-own'
export const PEER = 'fuzz-peer'

/**
 * Policy sets that are applied and deleted together, each in a separate namespace. While one convoy is probed, the
 * other changes.
 */
export const LANES = 8
export const CONVOYS = [0, 1] as const
export type Convoy = (typeof CONVOYS)[number]
const ALL_LANES = CONVOYS.flatMap(lanesOf)
/** The lanes of a convoy. */
export function lanesOf(convoy: Convoy): number[] {
  return Array.from({ length: LANES }, (_, place) => convoy * LANES + place)
}
export const laneName = (lane: number) => `${OWN}-${lane}`

const NAMED_PORTS = [
  { name: 'web', containerPort: 8080 },
  { name: 'admin', containerPort: 9090 },
]
const LISTENING = { tcp: [8080, 9090], udp: [8080] }
const OUTSIDE_LISTENING = { tcp: [80, 443, 8080], udp: [8080] }

/** Pods of the set's own namespace, one of each runtime, and pods of another namespace with the same labels. */
const OWN_PODS = [
  { name: 'a', labels: { app: 'a', tier: 'front' }, runtime: 'runc' },
  { name: 'b', labels: { app: 'b', tier: 'back' }, runtime: 'gvisor' },
] as const
const PEER_PODS = [
  { name: 'p', labels: { app: 'a', tier: 'back' } },
  { name: 'q', labels: { app: 'q' } },
] as const

/** Addresses outside. Names have a range to themselves, where each set has addresses that no other set uses. */
const OUTSIDE = ['192.0.2.10', '192.0.2.130', '10.201.0.10', '169.254.42.42'] as const
const NAME_RANGE = '198.18.0.0/15'
/**
 * Only one pod of one set looks up each name, because the agent applies a learned address to every pod for a long time.
 */
const HOSTS = ['one-a', 'two-a', 'one-b', 'two-b'] as const
const zoneOf = (set: number | string) => `set${set}.example.net`
const OWN_ZONE = zoneOf('-own')
const addressOf = (set: number, host: number) => `198.18.${set % 256}.${4 * Math.floor(set / 256) + host + 1}`

export const LABELS = [
  ['app', 'a'],
  ['app', 'b'],
  ['app', 'q'],
  ['tier', 'front'],
  ['tier', 'back'],
  ['nobody', 'has-this'],
] as const
export const PORTS = {
  numbers: [80, 443, 8080, 9090, 6443],
  names: ['web', 'admin', 'nowhere'],
  ranges: [
    [1, 1024],
    [8000, 9000],
    [80, 8080],
  ],
} as const
export const CIDRS = [
  { range: '0.0.0.0/0', inner: ['192.0.2.0/24', '10.0.0.0/8', '169.254.0.0/16', '198.18.0.0/15'] },
  { range: '192.0.2.0/24', inner: ['192.0.2.128/25', '192.0.2.10/32'] },
  { range: '192.0.2.10/32', inner: [] },
  { range: '10.0.0.0/8', inner: ['10.201.0.0/16'] },
  { range: '10.201.0.0/16', inner: ['10.201.0.0/24'] },
  { range: '169.254.42.42/32', inner: [] },
  { range: '198.18.0.0/15', inner: ['198.18.0.0/16'] },
  { range: '0.0.0.0/1', inner: ['10.0.0.0/8'] },
] as const
export const ENTITIES = ['all', 'world', 'cluster', 'host', 'remote-node', 'kube-apiserver', 'none'] as const
export const NAMES = [
  ...HOSTS.map((host) => ({ matchName: `${host}.${OWN_ZONE}` })),
  { matchPattern: `*.${OWN_ZONE}` },
  { matchPattern: `one-*.${OWN_ZONE}` },
  { matchPattern: '**.example.net' },
  { matchPattern: '*.example.net' },
  { matchPattern: '*' },
  { matchName: 'elsewhere.example.org' },
] as const

export function fuzzStage(sets: number): StagePlan {
  const listening = { listening: LISTENING, namedPorts: NAMED_PORTS }
  const lanes = ALL_LANES.map(laneName)
  const records = Array.from({ length: sets }, (_, set) =>
    HOSTS.map((host, index) => [`${host}.${zoneOf(set)}`, addressOf(set, index)] as const),
  )
  return {
    namespaces: [
      ...lanes.map((name) => ({ name, labels: { team: 'red' } })),
      { name: PEER, labels: { team: 'blue' } },
    ],
    pods: [
      ...lanes.flatMap((namespace) => OWN_PODS.map((pod) => ({ ...pod, namespace, ...listening }))),
      ...PEER_PODS.map((pod) => ({ ...pod, namespace: PEER, ...listening })),
    ],
    outside: {
      addresses: [...OUTSIDE, NAME_RANGE],
      ranges: ['192.0.2.0/24', '10.201.0.0/24', '169.254.42.42/32', NAME_RANGE],
    },
    records: Object.fromEntries(records.flat()),
    listening: OUTSIDE_LISTENING,
  }
}

/** Puts a set that is written for `OWN` into a lane, under the names of its number. */
export function placeSet<T>(set: T, lane: number, number: number): T {
  const text = JSON.stringify(set).replaceAll(OWN_ZONE, zoneOf(number)).replaceAll(OWN, laneName(lane))
  return JSON.parse(text) as T
}

export function fuzzFacts(stage: Stage): ClusterFacts {
  const lanes = ALL_LANES.map(laneName)
  const namedPorts = NAMED_PORTS.map(({ name, containerPort }) => ({
    name,
    port: containerPort,
    protocol: 'TCP' as const,
  }))
  const facts = (namespace: string, { name, labels }: { name: string; labels: Record<string, string> }) => ({
    namespace,
    name,
    labels,
    ips: [stage.pod(namespace, name).ip],
    node: stage.node.name,
    namedPorts,
  })
  const { pod: resolver, labels } = stage.dns
  return {
    namespaces: [
      ...lanes.map((name) => ({ name, labels: { team: 'red' } })),
      { name: PEER, labels: { team: 'blue' } },
      { name: resolver.namespace, labels: {} },
    ],
    pods: [
      ...lanes.flatMap((lane) => OWN_PODS.map((pod) => facts(lane, pod))),
      ...PEER_PODS.map((pod) => facts(PEER, pod)),
      { ...resolver, labels, ips: [resolver.ip], node: stage.node.name },
    ],
    nodes: [{ name: stage.node.name, ips: [stage.node.ip] }],
    apiServer: { ips: [stage.apiServer.ip] },
    resolver: { namespace: resolver.namespace, name: resolver.name },
  }
}

type Packet = readonly ['TCP' | 'UDP', number]
const POD_PACKETS: readonly Packet[] = [
  ['TCP', 8080],
  ['TCP', 9090],
  ['UDP', 8080],
]

/** All probes for a set: egress from its pods and ingress to its pods. */
export function fuzzCells(stage: Stage, lane: number, number: number): Question[] {
  const namespace = laneName(lane)
  return OWN_PODS.flatMap(({ name }) => [
    ...leaving(stage, { namespace, name, zone: zoneOf(number) }),
    ...entering(stage, { namespace, name }),
  ])
}

interface Subject {
  readonly namespace: string
  readonly name: string
}

function leaving(stage: Stage, { namespace, name, zone }: Subject & { zone: string }): Question[] {
  const from: End = { kind: 'pod', namespace, name }
  const to = (end: End, host: string, [protocol, port]: Packet): Question => ({
    title: `${namespace}/${name} →`,
    prober: [namespace, name],
    probe: { from, to: end, protocol, port },
    cell: { protocol, host, port },
  })
  const toPod = (pod: Subject, packet: Packet) =>
    to({ kind: 'pod', ...pod }, stage.pod(pod.namespace, pod.name).ip, packet)
  const toAddress = (ip: string, packet: Packet) => to({ kind: 'address', ip }, ip, packet)
  const others = OWN_PODS.filter((pod) => pod.name !== name).map((pod) => ({ namespace, name: pod.name }))
  const peers = PEER_PODS.map((pod) => ({ namespace: PEER, name: pod.name }))
  const hosts = HOSTS.filter((host) => host.endsWith(`-${name}`)).map((host) => `${host}.${zone}`)
  return [
    ...[...others, ...peers].flatMap((pod) => POD_PACKETS.map((packet) => toPod(pod, packet))),
    toAddress(stage.node.ip, ['TCP', 80]),
    toAddress(stage.node.ip, ['UDP', 8080]),
    toAddress(stage.apiServer.ip, ['TCP', 6443]),
    ...OUTSIDE.flatMap((ip) => [toAddress(ip, ['TCP', 80]), toAddress(ip, ['UDP', 8080])]),
    toAddress(OUTSIDE[0], ['TCP', 443]),
    ...hosts.flatMap((host) =>
      [80, 443].map((port) => to({ kind: 'name', name: host, ip: addressOfName(host) }, host, ['TCP', port])),
    ),
  ]
}

function addressOfName(name: string): string {
  const [, host = '', set = ''] = /^([^.]+)\.set(\d+)\./.exec(name) ?? []
  return addressOf(Number(set), (HOSTS as readonly string[]).indexOf(host))
}

function entering(stage: Stage, { namespace, name }: Subject): Question[] {
  const to: End = { kind: 'pod', namespace, name }
  const host = stage.pod(namespace, name).ip
  const sources: readonly { readonly prober: Question['prober']; readonly from: Probe['from'] }[] = [
    ...PEER_PODS.map((pod) => ({
      prober: [PEER, pod.name] as const,
      from: { kind: 'pod', namespace: PEER, name: pod.name } as const,
    })),
    { prober: 'node', from: { kind: 'address', ip: stage.node.ip } },
    { prober: 'outside', from: { kind: 'address', ip: stage.outside.ip } },
  ]
  return sources.flatMap(({ prober, from }) =>
    POD_PACKETS.map(
      ([protocol, port]): Question => ({
        title: `${prober} →`,
        prober,
        probe: { from, to, protocol, port },
        cell: { protocol, host, port },
      }),
    ),
  )
}
