import { readdirSync, readFileSync } from 'node:fs'
import { isHealthy } from '../host/health.ts'
import { isAlive, readStat, residentBytes } from '../host/process-identity.ts'
import type { ProcessRecord } from '../host/run-folder.ts'
import type { FoundCluster } from './choose-cluster.ts'

export interface ProcessStatus {
  readonly name: string
  readonly pid: number
  readonly residentMiB: number
  /** `healthy` or `unhealthy` if the program has a health URL, otherwise `running` or `ended`. */
  readonly health: 'healthy' | 'unhealthy' | 'running' | 'ended'
}

export interface ClusterStatus {
  readonly cluster: number
  readonly ready: boolean
  readonly startedAt: string
  readonly options: Readonly<Record<string, unknown>>
  readonly kubeconfig: string
  readonly processes: readonly ProcessStatus[]
  /** All other processes in the nodes: shims, gVisor's helpers, pods. */
  readonly podsMiB: number
  readonly totalMiB: number
}

const toMiB = (bytes: number) => Math.round(bytes / 1024 / 1024)

export async function statusOf({ slot, folder, state, alive }: FoundCluster): Promise<ClusterStatus> {
  const processes = await Promise.all(state.processes.map(statusOfProcess))
  const known = new Set(processes.map(({ pid }) => pid))
  const podsMiB = toMiB(state.nodes.reduce((sum, node) => sum + residentInside(node.pid, known), 0))
  const totalMiB = processes.reduce((sum, { residentMiB }) => sum + residentMiB, podsMiB)
  const { startedAt, options } = state
  return {
    cluster: slot,
    ready: alive && state.ready,
    startedAt,
    options,
    kubeconfig: `${folder}/kubeconfig`,
    processes,
    podsMiB,
    totalMiB,
  }
}

async function statusOfProcess(record: ProcessRecord): Promise<ProcessStatus> {
  const pid = programBehind(record.pid)
  return { name: record.name, pid, residentMiB: toMiB(residentBytes(pid)), health: await healthOf(record) }
}

async function healthOf(record: ProcessRecord): Promise<ProcessStatus['health']> {
  if (!isAlive(record)) return 'ended'
  if (!record.health) return 'running'
  return (await isHealthy(record.health)) ? 'healthy' : 'unhealthy'
}

const WRAPPERS = new Set(['nsenter', 'unshare', 'sh'])

/** The process that a wrapper waits for, because the status shows the memory of the program, not of its wrapper. */
function programBehind(pid: number): number {
  try {
    if (!WRAPPERS.has(readFileSync(`/proc/${pid}/comm`, 'utf8').trim())) return pid
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      .trim()
      .split(' ')
      .filter(Boolean)
    return children.length === 1 ? programBehind(Number(children[0])) : pid
  } catch {
    return pid
  }
}

/** Pods descend from the process that holds the node's namespaces. The node's programs descend from the harness. */
function residentInside(nodePid: number, known: ReadonlySet<number>): number {
  const parents = new Map(
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((name) => [Number(name), readStat(Number(name))?.parent ?? 0]),
  )
  const descends = (pid: number): boolean => {
    for (let at = parents.get(pid) ?? 0; at > 1; at = parents.get(at) ?? 0) if (at === nodePid) return true
    return false
  }
  const inside = [...parents.keys()].filter((pid) => !known.has(pid) && descends(pid))
  return inside.reduce((sum, pid) => sum + residentBytes(pid), 0)
}

export function formatStatus(status: ClusterStatus): string {
  const { cluster, ready, startedAt, options, kubeconfig, processes, podsMiB, totalMiB } = status
  const row = (name: string, residentMiB: number, rest = '') =>
    `  ${name.padEnd(26)} ${String(residentMiB).padStart(6)} MiB  ${rest}`.trimEnd()
  return [
    `cluster ${cluster}: ${ready ? 'ready' : 'not ready'}, since ${startedAt}, ${JSON.stringify(options)}`,
    `  KUBECONFIG=${kubeconfig}`,
    ...processes.map(({ name, pid, residentMiB, health }) =>
      row(name, residentMiB, `${health} (process ${pid})`),
    ),
    ...(podsMiB > 0 ? [row('pods and their shims', podsMiB)] : []),
    row('all', totalMiB),
  ].join('\n')
}
