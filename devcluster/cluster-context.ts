import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Tools } from './build/ensure-tools.ts'
import { createKubeClient, type KubeClient } from './client/kube-client.ts'
import { readKubeconfig, writeKubeconfig } from './client/kubeconfig.ts'
import type { ClusterOptions } from './cluster-options.ts'
import { HarnessError } from './harness-error.ts'
import type { AddressPlan } from './host/addresses.ts'
import { type Daemon, startDaemon } from './host/daemon.ts'
import { linkName } from './host/links.ts'
import { identityOf } from './host/process-identity.ts'
import {
  type ClusterState,
  kubeconfigPath,
  logPath,
  type NodeRecord,
  type ProcessRecord,
  slotFolder,
  writeState,
} from './host/run-folder.ts'
import { createTogether, type Together } from './host/together.ts'
import type { Subject } from './pki/certificate.ts'
import { type ClusterPki, createClusterPki } from './pki/cluster-pki.ts'

export interface ProgramSpec {
  readonly name: string
  readonly argv: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  readonly cgroups?: readonly string[]
  readonly health?: string
}

/** Shared state and operations for the parts of a cluster while it starts. */
export interface ClusterContext {
  readonly slot: number
  readonly folder: string
  readonly tools: Tools
  readonly plan: AddressPlan
  readonly options: ClusterOptions
  readonly pki: ClusterPki
  /** Base URL of the API server. Set once its address is known. */
  server: string
  run(spec: ProgramSpec): Daemon
  /** Running programs in start order. */
  readonly daemons: Daemon[]
  adopt(daemon: Daemon): void
  /**
   * Waits for several steps. If one fails, the cluster is closed, so the other steps fail soon and leave no process
   * behind.
   */
  readonly together: Together
  /** Stops every program. No program can be started afterwards. */
  close(): Promise<void>
  noteCgroups(folders: readonly string[]): void
  noteNode(node: NodeRecord): void
  noteReady(): void
  /** Writes a kubeconfig for a client certificate of `subject` and returns its path. */
  kubeconfigFor(name: string, subject: Subject): string
  client(): KubeClient
}

export interface ContextDeps {
  readonly slot: number
  readonly tools: Tools
  readonly plan: AddressPlan
  readonly options: ClusterOptions
}

export function createContext({ slot, tools, plan, options }: ContextDeps): ClusterContext {
  const folder = slotFolder(slot)
  const daemons: Daemon[] = []
  const state = createStateKeeper(folder, {
    slot,
    options: { ...options },
    pathFolders: tools.binFolders,
    ...(options.nodes > 0 ? { link: linkName(slot) } : {}),
  })
  const adopt = (daemon: Daemon, health?: string) => {
    daemons.push(daemon)
    const { name, identity, logPath: log } = daemon
    state.addProcess({ name, ...identity, log, ...(health ? { health } : {}) })
  }
  mkdirSync(join(folder, 'kubeconfigs'), { mode: 0o700 })
  let shared: KubeClient | undefined
  let closed = false
  async function close(): Promise<void> {
    closed = true
    await Promise.all(daemons.map((daemon) => daemon.stop(0)))
    await shared?.close().catch(() => undefined)
  }
  return {
    slot,
    folder,
    tools,
    plan,
    options,
    pki: createClusterPki(join(folder, 'pki'), ['127.0.0.1', plan.apiService, plan.host]),
    server: '',
    daemons,
    adopt,
    together: createTogether(close),
    close,
    noteCgroups: state.addCgroups,
    noteNode: state.addNode,
    noteReady: state.setReady,
    run({ health, ...spec }) {
      if (closed) throw new HarnessError(`${spec.name} was not started: the cluster is going down`)
      const daemon = startDaemon({ ...spec, logPath: logPath(folder, spec.name) })
      adopt(daemon, health)
      return daemon
    },
    kubeconfigFor(name, subject) {
      const path = name === 'admin' ? kubeconfigPath(folder) : join(folder, 'kubeconfigs', name)
      const user = this.pki.issue(name, { subject, usage: 'client' })
      writeKubeconfig(path, { server: this.server, authorityFile: this.pki.authority, user })
      return path
    },
    client() {
      shared ??= createKubeClient(readKubeconfig(kubeconfigPath(folder)))
      return shared
    },
  }
}

/** Rewrites the state file at every change, so a clean-up after a crash finds everything. */
function createStateKeeper(
  folder: string,
  start: Pick<ClusterState, 'slot' | 'options' | 'pathFolders' | 'link'>,
) {
  const owner = identityOf(process.pid) ?? { pid: process.pid, startTicks: '' }
  let state: ClusterState = {
    ...start,
    owner,
    startedAt: new Date().toISOString(),
    ready: false,
    processes: [],
    cgroups: [],
    nodes: [],
  }
  const change = (part: Partial<ClusterState>) => {
    state = { ...state, ...part }
    writeState(folder, state)
  }
  change({})
  return {
    // A program that is restarted on another port replaces its earlier record.
    addProcess: (record: ProcessRecord) =>
      change({ processes: [...state.processes.filter(({ name }) => name !== record.name), record] }),
    addCgroups: (folders: readonly string[]) => change({ cgroups: [...state.cgroups, ...folders] }),
    addNode: (node: NodeRecord) => change({ nodes: [...state.nodes, node] }),
    setReady: () => change({ ready: true }),
  }
}
