import { SandboxKind } from '../../contracts/names.ts'
import { type PodNeeds, podNeeds } from '../environment/pod-needs.ts'
import type { Environment } from '../environment/schema.ts'
import { addressedNodes, addressesPerNode } from './addresses.ts'

/** How many sandboxes of a class one limit permits. */
export interface Limit {
  readonly name: string
  readonly sandboxes: number
  /** The key of the environment file that sets the limit. */
  readonly key: string
}

/** Limits, tightest first. */
export interface Fit {
  readonly sandboxes: number
  readonly limits: readonly Limit[]
}

const QUOTA = 'sizes.sandboxes.quota'
const NODES = 'infra.sandboxNodes'

type Resource = 'cpuMillis' | 'memoryMib' | 'ephemeralMib' | 'pods' | 'addresses'
type Free = Record<Resource, number>

const RESOURCES: Readonly<Record<Resource, readonly [name: string, key: string]>> = {
  cpuMillis: ['cpu requests', `${NODES}.cpuMillis`],
  memoryMib: ['memory', `${NODES}.memoryMib`],
  ephemeralMib: ['ephemeral storage', `${NODES}.ephemeralMib`],
  pods: ['pods', `${NODES}.pods`],
  addresses: ['pod addresses', 'infra.network.nodePodBits'],
}
const ALL = Object.keys(RESOURCES) as Resource[]

/** How many sandboxes of a class fit on an otherwise empty node. */
export function fitPerNode(environment: Environment, kind: SandboxKind): Fit {
  const need = podNeeds(environment.sizes.sandboxes)[kind]
  const free = freeNode(environment)
  return toFit(
    ALL.map((resource) => {
      const [name, key] = RESOURCES[resource]
      return { name, key, sandboxes: roomFor(need, free, [resource]) }
    }),
  )
}

/** How many sandboxes of one class can be bound at once while both warm pools stay full. */
export function fitInAll(environment: Environment, kind: SandboxKind): Fit {
  return toFit([...quotaLimits(environment, kind), ...nodeLimits(environment, kind)])
}

function toFit(limits: readonly Limit[]): Fit {
  const sorted = limits.toSorted((a, b) => a.sandboxes - b.sandboxes)
  return { sandboxes: sorted[0]?.sandboxes ?? 0, limits: sorted }
}

function quotaLimits({ sizes }: Environment, kind: SandboxKind): Limit[] {
  const { quota } = sizes.sandboxes
  const needs = podNeeds(sizes.sandboxes)
  const beside = (resource: keyof PodNeeds & keyof typeof quota) => {
    const warm = SandboxKind.options.reduce(
      (sum, other) => sum + needs[other].warm * needs[other][resource],
      0,
    )
    return Math.max(0, Math.floor((quota[resource] - warm) / needs[kind][resource]))
  }
  const warmPods = SandboxKind.options.reduce((sum, other) => sum + needs[other].warm, 0)
  const limit = (name: string, key: keyof typeof quota, sandboxes: number): Limit => ({
    name: `quota: ${name}`,
    sandboxes,
    key: `${QUOTA}.${key}`,
  })
  return [
    ...(kind === 'agent'
      ? [{ name: 'API: runs at once', sandboxes: sizes.runs.maxRuns, key: 'sizes.runs.maxRuns' }]
      : []),
    limit('claims', 'claims', quota.claims),
    limit('pods', 'pods', Math.max(0, quota.pods - warmPods)),
    limit('cpu requests', 'cpuMillis', beside('cpuMillis')),
    limit('cpu limits', 'maxCpuMillis', beside('maxCpuMillis')),
    limit('memory', 'memoryMib', beside('memoryMib')),
    limit('ephemeral storage', 'ephemeralMib', beside('ephemeralMib')),
  ]
}

function nodeLimits(environment: Environment, kind: SandboxKind): Limit[] {
  const { max } = environment.infra.sandboxNodes
  const ranges = addressedNodes(environment.infra.network)
  const pack = (nodes: number, resources: readonly Resource[]) =>
    packed({ environment, kind, resources, nodes })
  return [
    ...ALL.map((resource) => {
      const [name, key] = RESOURCES[resource]
      return { name: `nodes: ${name}`, sandboxes: pack(max, [resource]), key }
    }),
    { name: 'nodes: all of it together', sandboxes: pack(max, ALL), key: `${NODES}.max` },
    ...ranges
      .filter(({ nodes }) => nodes < max)
      .map(({ name, key, nodes }) => ({ name, key, sandboxes: pack(nodes, ALL) })),
  ]
}

interface Packing {
  readonly environment: Environment
  readonly kind: SandboxKind
  /** The resources to consider. Others count as unlimited. */
  readonly resources: readonly Resource[]
  readonly nodes: number
}

/** First fit of the warm pods, larger class first, then as many of one class as the remaining space holds. */
function packed({ environment, kind, resources, nodes: count }: Packing): number {
  const needs = podNeeds(environment.sizes.sandboxes)
  const nodes = Array.from({ length: count }, () => freeNode(environment))
  const classes = SandboxKind.options.toSorted((one, other) => needs[other].memoryMib - needs[one].memoryMib)
  for (const { warm, ...pod } of classes.map((other) => needs[other])) {
    let left = warm
    for (const free of nodes) {
      const placed = Math.min(left, roomFor(pod, free, resources))
      for (const resource of resources) free[resource] -= placed * needOf(pod, resource)
      left -= placed
    }
    if (left > 0) return 0
  }
  return nodes.reduce((sum, free) => sum + roomFor(needs[kind], free, resources), 0)
}

function freeNode({ infra }: Environment): Free {
  const { daemons, cpuMillis, memoryMib, ephemeralMib, pods } = infra.sandboxNodes
  return {
    cpuMillis: cpuMillis - daemons.cpuMillis,
    memoryMib: memoryMib - daemons.memoryMib,
    ephemeralMib,
    pods: pods - daemons.pods,
    addresses: addressesPerNode(infra.network) - daemons.pods,
  }
}

type Asked = Omit<PodNeeds, 'warm'>

const needOf = (pod: Asked, resource: Resource) =>
  resource === 'pods' || resource === 'addresses' ? 1 : pod[resource]

function roomFor(pod: Asked, free: Free, resources: readonly Resource[]): number {
  const rooms = resources.map((resource) => Math.floor(free[resource] / needOf(pod, resource)))
  return Math.max(0, Math.min(...rooms))
}
