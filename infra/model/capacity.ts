import { parseVmSize, type VmSize } from './vm-sizes.ts'

/** What one node offers to pods. */
export interface NodeCapacity {
  readonly cpuMillis: number
  readonly memoryMib: number
  readonly ephemeralMib: number
  readonly pods: number
}

/** Millicores that AKS keeps by number of vCPUs (learn.microsoft.com/azure/aks/node-resource-reservations). */
const CPU_KEPT: readonly (readonly [vcpus: number, millis: number])[] = [
  [1, 60],
  [2, 100],
  [4, 140],
  [8, 180],
  [16, 260],
  [32, 420],
  [64, 740],
]
const MB_IN_MIB = 1_000_000 / 1_048_576
/** The kubelet evicts below 100 MiB; firmware and kernel keep about 2 % before the kubelet counts. */
const EVICTION_MIB = 100
const KERNEL_SHARE = 0.02
/** The kubelet evicts when less than a tenth of the node's disk is free. */
const DISK_SHARE = 0.9

/** Allocatable of a node as AKS 1.29 and later computes it. An estimate: `agentweaver verify` measures. */
export function nodeCapacity(size: VmSize, node: { maxPods: number; osDiskGib: number }): NodeCapacity {
  const kept = CPU_KEPT.filter(([vcpus]) => vcpus <= size.vcpus).at(-1)?.[1] ?? 60
  const kubelet = Math.min((20 * node.maxPods + 50) * MB_IN_MIB, size.memoryMib * 0.25)
  return {
    cpuMillis: size.vcpus * 1000 - kept,
    memoryMib: Math.floor(size.memoryMib * (1 - KERNEL_SHARE) - kubelet - EVICTION_MIB),
    ephemeralMib: Math.floor(node.osDiskGib * 1024 * DISK_SHARE),
    pods: node.maxPods,
  }
}

/** One sandbox as the scheduler sees it: both containers and the RuntimeClass's overhead. */
export interface SandboxNeed {
  readonly cpuMillis: number
  readonly memoryMib: number
  readonly overheadMib: number
}

export interface Fit {
  readonly perNode: number
  /** What runs out first. */
  readonly limit: 'cpu' | 'memory' | 'pods'
}

/** The number of sandboxes that fit on a node next to its DaemonSets. */
export function fitSandboxes(
  node: NodeCapacity,
  daemons: { readonly cpuMillis: number; readonly memoryMib: number; readonly pods: number },
  need: SandboxNeed,
): Fit {
  const limits = {
    cpu: Math.floor((node.cpuMillis - daemons.cpuMillis) / need.cpuMillis),
    memory: Math.floor((node.memoryMib - daemons.memoryMib) / (need.memoryMib + need.overheadMib)),
    pods: node.pods - daemons.pods,
  }
  const entries = Object.entries(limits) as [Fit['limit'], number][]
  const [limit, perNode] = entries.reduce((least, entry) => (entry[1] < least[1] ? entry : least))
  return { perNode: Math.max(0, perNode), limit }
}

export interface PoolNeed {
  readonly size: string
  readonly max: number
  /** Nodes that an upgrade adds for a while. */
  readonly surge: number
}

/** vCPUs that pools may use at most, by quota family: all nodes at their maximum while an upgrade surges. */
export function vcpusByFamily(pools: readonly PoolNeed[]): Readonly<Record<string, number>> {
  const totals: Record<string, number> = {}
  for (const { size, max, surge } of pools) {
    const machine = parseVmSize(size)
    if (machine === undefined) continue
    totals[machine.family] = (totals[machine.family] ?? 0) + machine.vcpus * (max + surge)
  }
  return totals
}

const HOURS_PER_MONTH = 730

/** Node-hours a month, at the least (all pools at their minimum) and at the most. */
export function nodeHours(pool: { readonly min: number; readonly max: number }) {
  return { least: pool.min * HOURS_PER_MONTH, most: pool.max * HOURS_PER_MONTH }
}
