import { SandboxKind } from '../../contracts/names.ts'
import { type PodNeeds, podNeeds } from '../environment/pod-needs.ts'
import type { Environment } from '../environment/schema.ts'

/** How many sandboxes of a kind one limit permits beside the warm pools. */
export interface Limit {
  readonly name: string
  readonly sandboxes: number
  /** The key of the environment file that raises it. */
  readonly raise: string
}

export interface Fit {
  readonly kind: SandboxKind
  /** In the order of what binds first. */
  readonly limits: readonly Limit[]
  readonly sandboxes: number
}

const QUOTA = 'sizes.sandboxes.quota'
const NODES = 'infra.sandboxNodes'
/** What a node's own network takes of its range of pod addresses: first, last and router. */
const RESERVED_ADDRESSES = 3

type Resource = 'cpuMillis' | 'memoryMib' | 'ephemeralMib' | 'pods' | 'addresses'
type Free = Record<Resource, number>

/** What binds sandboxes of one kind that are bound at the same time, while the warm pools stay full. */
export function fitOf(environment: Environment, kind: SandboxKind): Fit {
  const needs = podNeeds(environment.sizes.sandboxes)
  const limits = [...quotaLimits(environment, kind, needs), ...nodeLimits(environment, kind, needs)].sort(
    (a, b) => a.sandboxes - b.sandboxes,
  )
  return { kind, limits, sandboxes: limits[0]?.sandboxes ?? 0 }
}

type Needs = Readonly<Record<SandboxKind, PodNeeds>>

function quotaLimits({ sizes }: Environment, kind: SandboxKind, needs: Needs): Limit[] {
  const { quota } = sizes.sandboxes
  const resources = {
    'quota of cpu requests': 'cpuMillis',
    'quota of cpu limits': 'maxCpuMillis',
    'quota of memory': 'memoryMib',
    'quota of ephemeral storage': 'ephemeralMib',
  } as const
  const warmPods = SandboxKind.options.reduce((sum, other) => sum + needs[other].warm, 0)
  return [
    { name: 'quota of claims', sandboxes: quota.claims, raise: `${QUOTA}.claims` },
    { name: 'quota of pods', sandboxes: Math.max(0, quota.pods - warmPods), raise: `${QUOTA}.pods` },
    ...Object.entries(resources).map(([name, resource]) => {
      const warm = SandboxKind.options.reduce(
        (sum, other) => sum + needs[other].warm * needs[other][resource],
        0,
      )
      const sandboxes = Math.max(0, Math.floor((quota[resource] - warm) / needs[kind][resource]))
      return { name, sandboxes, raise: `${QUOTA}.${resource}` }
    }),
  ]
}

function nodeLimits(environment: Environment, kind: SandboxKind, needs: Needs): Limit[] {
  const alone: Readonly<Record<string, readonly [Resource, string]>> = {
    'cpu of the nodes': ['cpuMillis', `${NODES}.max`],
    'memory of the nodes': ['memoryMib', `${NODES}.max`],
    'ephemeral storage of the nodes': ['ephemeralMib', `${NODES}.max`],
    'pods of the nodes': ['pods', `${NODES}.pods`],
    'addresses of the nodes': ['addresses', 'infra.network.nodePodBits'],
  }
  const pack = (resources: readonly Resource[]) => packed({ environment, kind, needs, resources })
  const together = pack(Object.values(alone).map(([resource]) => resource))
  return [
    ...Object.entries(alone).map(([name, [resource, raise]]) => ({
      name,
      sandboxes: pack([resource]),
      raise,
    })),
    { name: 'nodes, all of it together', sandboxes: together, raise: `${NODES}.max` },
  ]
}

interface Packing {
  readonly environment: Environment
  readonly kind: SandboxKind
  readonly needs: Needs
  readonly resources: readonly Resource[]
}

/** First fit, the larger kind first, of the warm pods; then as many of one kind as the rest takes. */
function packed({ environment, kind, needs, resources }: Packing): number {
  const nodes = Array.from({ length: environment.infra.sandboxNodes.max }, () => freeNode(environment))
  const warm = SandboxKind.options
    .toSorted((a, b) => needs[b].memoryMib - needs[a].memoryMib)
    .flatMap((other) => Array.from({ length: needs[other].warm }, () => needs[other]))
  for (const pod of warm) {
    const node = nodes.find((free) => roomFor(pod, free, resources) >= 1)
    if (!node) return 0
    take(pod, node)
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
    addresses: 2 ** (32 - infra.network.nodePodBits) - RESERVED_ADDRESSES - daemons.pods,
  }
}

const needOf = (pod: PodNeeds, resource: Resource) =>
  resource === 'pods' || resource === 'addresses' ? 1 : pod[resource]

function roomFor(pod: PodNeeds, free: Free, resources: readonly Resource[]): number {
  return Math.max(
    0,
    Math.min(...resources.map((resource) => Math.floor(free[resource] / needOf(pod, resource)))),
  )
}

function take(pod: PodNeeds, free: Free): void {
  for (const resource of Object.keys(free) as Resource[]) free[resource] -= needOf(pod, resource)
}
