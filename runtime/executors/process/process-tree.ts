import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/** Number of checks without a pause: a namespace usually disappears within a fraction of a millisecond. */
const EAGER_LOOKS = 64

/** Whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN). */
const listsChildren = (): boolean => existsSync(`/proc/${process.pid}/task/${process.pid}/children`)

/** Returns the child of a launcher that has one thread and one child, or undefined. */
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
 * Returns the direct children of a process. Empty if the process is gone, or the kernel does not list children
 * (CONFIG_PROC_CHILDREN).
 */
export function childrenOf(pid: number): number[] {
  return tasksOf(pid).flatMap((task) =>
    readOr(`/proc/${pid}/task/${task}/children`, '').split(' ').filter(Boolean).map(Number),
  )
}

/** Returns whether a number is a process id and not a thread id: gVisor lists threads among the children. */
export const isProcess = (pid: number): boolean =>
  readOr(`/proc/${pid}/status`, '').includes(`\nTgid:\t${pid}\n`)

/** Returns all descendants of `pid`, parents first. */
export function descendantsOf(pid: number): number[] {
  const found: number[] = []
  for (let next = childrenOf(pid); next.length > 0; next = next.flatMap(childrenOf)) found.push(...next)
  return found
}

/** Returns the processes that were started with the environment entry `marker` (`NAME=value`). */
export function processesMarked(marker: string): number[] {
  return processes().filter((pid) => hasMark(pid, marker))
}

/** Returns whether a process was started with the environment entry `marker` (`NAME=value`). */
export function hasMark(pid: number, marker: string): boolean {
  return readOr(`/proc/${pid}/environ`, '').split('\0').includes(marker)
}

/**
 * Enough of a command line to identify the program: the command lines of the supervisor and its command differ
 * early.
 */
const PROGRAM_BYTES = 256

/**
 * Returns the beginning of a process's command line, or an empty string if the process is gone. The process
 * itself can change this text.
 */
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

/** Sends a signal. Does nothing if the process is gone. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

/** Waits until a process is dead. A zombie counts as dead: the namespace that it led is empty by then. */
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

/** Returns whether a process is stopped by a signal, or gone. */
export const isStopped = (pid: number): boolean => isDead(pid) || statOf(pid)[0] === 'T'

/**
 * The fields of `/proc/<pid>/stat` after the program's name: state, parent and so on. The name itself may
 * contain any character.
 */
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

/** ESRCH and ENOENT: the process ended. EPERM and EACCES: its number now belongs to another user's process. */
const isGone = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  ['ESRCH', 'ENOENT', 'EPERM', 'EACCES'].includes(String(error.code))
