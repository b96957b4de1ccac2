import type { SandboxKind } from '../../contracts/names.ts'
import type { ContainerSize, Environment, PoolSize } from './schema.ts'

type Sandboxes = Environment['sizes']['sandboxes']

/** Resources that one sandbox pod takes from a node and the quota, including the RuntimeClass overhead. */
export interface PodNeeds {
  readonly cpuMillis: number
  readonly maxCpuMillis: number
  readonly memoryMib: number
  readonly ephemeralMib: number
  /** The maximum number of warm pods of the class. */
  readonly warm: number
}

export function podNeeds(sandboxes: Sandboxes): Record<SandboxKind, PodNeeds> {
  return { agent: needsOf(sandboxes.agent, sandboxes), command: needsOf(sandboxes.command, sandboxes) }
}

function needsOf(
  { agentHost, toolbox, warm, volumes }: PoolSize,
  { overhead, workspace }: Sandboxes,
): PodNeeds {
  const storage = ephemeralLimits({ agentHost, toolbox, volumes }, workspace)
  return {
    cpuMillis: agentHost.cpuMillis + toolbox.cpuMillis + overhead.cpuMillis,
    maxCpuMillis: agentHost.maxCpuMillis + toolbox.maxCpuMillis + overhead.cpuMillis,
    memoryMib: agentHost.memoryMib + toolbox.memoryMib + overhead.memoryMib,
    ephemeralMib: storage.agentHost + storage.toolbox,
    warm: warm.owner === 'tree' ? warm.replicas : warm.max,
  }
}

/**
 * Ephemeral-storage limits per container. The kubelet evicts a pod whose emptyDirs and containers exceed the
 * sum of the limits, so each limit includes the volumes that its container writes.
 */
export function ephemeralLimits(
  { agentHost, toolbox, volumes }: Pick<PoolSize, 'agentHost' | 'toolbox' | 'volumes'>,
  workspace: Sandboxes['workspace'],
): { readonly agentHost: number; readonly toolbox: number } {
  const own = volumes.tmpMib + volumes.homeMib
  return {
    agentHost: agentHost.ephemeralMib + own,
    toolbox: toolbox.ephemeralMib + own + (workspace === 'emptyDir' ? volumes.workspaceMib : 0),
  }
}

/** The database-setup Job opens two connections and exits. */
export const DATABASE_SETUP_SIZE: ContainerSize = {
  cpuMillis: 50,
  maxCpuMillis: 500,
  memoryMib: 256,
  ephemeralMib: 64,
}
