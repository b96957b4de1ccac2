import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HarnessError } from '../harness-error.ts'
import { MAX_SLOTS } from './addresses.ts'
import type { ProcessIdentity } from './process-identity.ts'

/** The state file of a cluster, from which other processes show, stop or clean it up. */
export interface ClusterState {
  readonly slot: number
  readonly owner: ProcessIdentity
  readonly startedAt: string
  readonly options: Readonly<Record<string, unknown>>
  readonly ready: boolean
  readonly processes: readonly ProcessRecord[]
  readonly cgroups: readonly string[]
  /**
   * The host's end of the node network. Absent without nodes: a link with the cluster's name may then belong to another
   * user.
   */
  readonly link?: string
  readonly nodes: readonly NodeRecord[]
  readonly pathFolders: readonly string[]
}

export interface ProcessRecord extends ProcessIdentity {
  readonly name: string
  readonly log: string
  /**
   * A URL that responds with 2xx when the program is healthy. Absent if the program has no such URL without
   * credentials.
   */
  readonly health?: string
}

export interface NodeRecord {
  readonly name: string
  /** The process that holds the node's namespaces. */
  readonly pid: number
}

/** Not below `/tmp`, because the nodes and the controller-manager have their own `/tmp` mounts. */
export function runRoot(uid = process.getuid?.() ?? 0): string {
  return `/var/tmp/agentweaver-kube-${uid}`
}

export const slotFolder = (slot: number) => join(runRoot(), String(slot))
export const kubeconfigPath = (folder: string) => join(folder, 'kubeconfig')
export const logPath = (folder: string, name: string) => join(folder, 'logs', `${name}.log`)

/** Takes the first slot that is free and not refused. Creating the slot's folder claims it. */
export function takeSlot(refuse: (slot: number) => boolean): number {
  mkdirSync(runRoot(), { recursive: true, mode: 0o700 })
  for (let slot = 0; slot < MAX_SLOTS; slot += 1) {
    if (!refuse(slot) && tryTake(slot)) return slot
  }
  throw new HarnessError(
    `no free place for another cluster (${MAX_SLOTS} at most); see \`npm run cluster -- status\``,
  )
}

function tryTake(slot: number): boolean {
  try {
    mkdirSync(slotFolder(slot), { mode: 0o711 })
    mkdirSync(join(slotFolder(slot), 'logs'))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

export function listSlots(): number[] {
  try {
    return readdirSync(runRoot())
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .sort((a, b) => a - b)
  } catch {
    return []
  }
}

export function readState(folder: string): ClusterState | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'state.json'), 'utf8')) as ClusterState
  } catch {
    return undefined
  }
}

export function writeState(folder: string, state: ClusterState): void {
  const temporary = join(folder, '.state.json')
  writeFileSync(temporary, JSON.stringify(state, null, 1), { mode: 0o600 })
  renameSync(temporary, join(folder, 'state.json'))
}

/** Milliseconds since the folder was last modified. */
export function folderAgeMs(folder: string): number {
  const made = statSync(folder, { throwIfNoEntry: false })?.mtimeMs
  return made === undefined ? 0 : Date.now() - made
}
