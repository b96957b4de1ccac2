import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { cacheRoot } from '../../../devcluster/build/tool-cache.ts'
import { isAlive } from '../../../devcluster/host/process-identity.ts'
import { listSlots, readState, runRoot, slotFolder } from '../../../devcluster/host/run-folder.ts'

/** All that a cluster can leave behind on a machine. */
export interface Machine {
  readonly processes: readonly string[]
  readonly mounts: readonly string[]
  readonly links: readonly string[]
  readonly routes: readonly string[]
  readonly cgroups: readonly string[]
  readonly folders: readonly string[]
}

const OURS = /awkube/

export function readMachine(): Machine {
  return {
    processes: readdirSync('/proc').filter((name) => /^\d+$/.test(name) && belongsToCluster(name)),
    mounts: linesOf('/proc/self/mountinfo').map((line) => line.split(' ').slice(3, 5).join(' ')),
    links: readdirSync('/sys/class/net'),
    routes: linesOf('/proc/net/route'),
    cgroups: cgroupFolders('/sys/fs/cgroup', 3),
    folders: [runRoot(), '/tmp/hostpath_pv'].flatMap((root) =>
      existsSync(root) ? readdirSync(root).map((name) => join(root, name)) : [],
    ),
  }
}

function linesOf(path: string): string[] {
  return readFileSync(path, 'utf8').trim().split('\n').sort()
}

/**
 * Identifies the process by its program, its arguments or its control group, because pods run programs from separate
 * images.
 */
function belongsToCluster(pid: string): boolean {
  try {
    const program = readlinkSync(`/proc/${pid}/exe`)
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
    return program.startsWith(cacheRoot()) || words.includes(runRoot()) || OURS.test(groups)
  } catch {
    return false
  }
}

/** In the environment of every command that a test starts, and so of the process that owns its cluster. */
export const TEST_MARKER = `AGENTWEAVER_HARNESS_TEST=${process.pid}`

/**
 * Clusters that this test did not start and whose owner is alive. The remains of a dead owner's cluster may come from
 * this test.
 */
function othersSlots(): number[] {
  return listSlots().filter((slot) => {
    const owner = readState(slotFolder(slot))?.owner
    return (
      owner !== undefined &&
      isAlive(owner) &&
      !readIfThere(`/proc/${owner.pid}/environ`).includes(TEST_MARKER)
    )
  })
}

/** The texts that identify the cluster of a process. A client has this information only in its environment. */
const traceOf = (pid: string) =>
  ['cmdline', 'cgroup', 'environ'].map((file) => readIfThere(`/proc/${pid}/${file}`)).join('\0')

/** By its folder, or by the name of its link and its control groups. */
function namesSlot(text: string, slots: readonly number[]): boolean {
  return slots.some((slot) => new RegExp(`${slotFolder(slot)}(?!\\d)|awkube${slot}(?!\\d)`).test(text))
}

/** Empty where the process has ended. */
function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function cgroupFolders(folder: string, depth: number): string[] {
  if (depth === 0) return []
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => {
      const below = cgroupFolders(join(folder, name), depth - 1)
      return OURS.test(name) ? [join(folder, name), ...below] : below
    })
}

/** Everything new since `before`, except for resources of clusters that run in parallel with the tests. */
export function newSince(before: Machine): Partial<Machine> {
  // Another cluster may start or stop while the machine is read.
  const earlier = othersSlots()
  const now = readMachine()
  const others = [...earlier, ...othersSlots()]
  const left = Object.entries(now).map(([kind, items]) => {
    const known = new Set(before[kind as keyof Machine])
    const isOthers = (item: string) => namesSlot(kind === 'processes' ? traceOf(item) : item, others)
    return [kind, (items as readonly string[]).filter((item) => !known.has(item) && !isOthers(item))] as const
  })
  return Object.fromEntries(left.filter(([, items]) => items.length > 0))
}
