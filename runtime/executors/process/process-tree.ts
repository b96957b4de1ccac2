import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/** How often to look again without a pause: a namespace usually vanishes within a fraction of a millisecond. */
const EAGER_LOOKS = 64

/** Whether this kernel lists the children of a process (CONFIG_PROC_CHILDREN). */
const listsChildren = (): boolean => existsSync(`/proc/${process.pid}/task/${process.pid}/children`)

/** The first child of a launcher that has one thread and one child; undefined where it has none. */
export function onlyChildOf(pid: number, isListed = listsChildren()): number | undefined {
  if (!isListed) return processes().find((one) => parentOf(one) === pid)
  const child = Number.parseInt(readOr(`/proc/${pid}/task/${pid}/children`, ''), 10)
  return Number.isNaN(child) ? undefined : child
}

const processes = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

const parentOf = (pid: number): number => Number(statOf(pid)[1])

/**
 * Direct children of a process. Empty where the kernel does not tell (CONFIG_PROC_CHILDREN) or the
 * process is gone.
 */
export function childrenOf(pid: number): number[] {
  return tasksOf(pid).flatMap((task) =>
    readOr(`/proc/${pid}/task/${task}/children`, '').split(' ').filter(Boolean).map(Number),
  )
}

/** Whether a number is a process and no thread of one: gVisor lists a child's threads among the children. */
export const isProcess = (pid: number): boolean =>
  readOr(`/proc/${pid}/status`, '').includes(`\nTgid:\t${pid}\n`)

/** Every process below `pid`, parents first. */
export function descendantsOf(pid: number): number[] {
  const found: number[] = []
  for (let next = childrenOf(pid); next.length > 0; next = next.flatMap(childrenOf)) found.push(...next)
  return found
}

/** Processes whose environment at their start had the entry `marker` (`NAME=value`). */
export function processesMarked(marker: string): number[] {
  return processes().filter((pid) => hasMark(pid, marker))
}

/** Whether a process had the entry `marker` (`NAME=value`) in its environment at its start. */
export function hasMark(pid: number, marker: string): boolean {
  return readOr(`/proc/${pid}/environ`, '').split('\0').includes(marker)
}

/** How much of a process's command line tells its program: the witness's and its command's differ at once. */
const PROGRAM_BYTES = 256

/** The beginning of a process's command line, which a process may write itself; empty where it is gone. */
export function programOf(pid: number): string {
  let file: number | undefined
  try {
    file = openSync(`/proc/${pid}/cmdline`, 'r')
    const bytes = Buffer.alloc(PROGRAM_BYTES)
    return bytes.toString('latin1', 0, readSync(file, bytes))
  } catch (error) {
    if (isGone(error)) return ''
    throw error
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Sends a signal and does not mind that the process is gone. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

/** Waits until a process has died. A zombie counts as dead: its namespace, if it led one, is empty by then. */
export async function waitUntilDead(pid: number, deadlineMs: number): Promise<boolean> {
  const end = performance.now() + deadlineMs
  for (let looks = 0; !isDead(pid); looks++) {
    if (performance.now() > end) return false
    await (looks < EAGER_LOOKS ? nextTurn() : sleep(1))
  }
  return true
}

export function isDead(pid: number): boolean {
  const [state = ''] = statOf(pid)
  return state === '' || state === 'Z' || state === 'X'
}

/** The fields of `/proc/<pid>/stat` behind the program's name, which may hold anything: its state, its parent. */
function statOf(pid: number): string[] {
  const stat = readOr(`/proc/${pid}/stat`, '')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

function tasksOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch (error) {
    if (isGone(error)) return []
    throw error
  }
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (isGone(error)) return otherwise
    throw error
  }
}

/** ESRCH and ENOENT: it ended; EPERM: its number went to another user's process; EACCES: likewise for files. */
const isGone = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  ['ESRCH', 'ENOENT', 'EPERM', 'EACCES'].includes(String(error.code))
