import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import koffi from 'koffi'
import { errnoOf, SandboxError } from '../kit/errors.ts'
import { expectSuccess, libc } from './libc.ts'

/** Of linux/prctl.h. */
const PR_SET_DUMPABLE = 4
const PR_SET_CHILD_SUBREAPER = 36
const PR_SET_NO_NEW_PRIVS = 38

/** Of linux/seccomp.h, and the call's number in each table. */
const SECCOMP_SET_MODE_FILTER = 1
const SECCOMP_FILTER_FLAG_TSYNC = 1
const SECCOMP_CALL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 317, arm64: 277 }
const BYTES_PER_INSTRUCTION = 8

const WNOHANG = 1

/** Of asm-generic/resource.h, which both our machines have. */
const RESOURCES = { fileBytes: 1, dataBytes: 2, coreBytes: 4, openFiles: 7 } as const

export type ResourceLimits = Readonly<Record<keyof typeof RESOURCES, number>>

type Limit = (resource: number, limits: BigUint64Array) => number
type GroupOf = (pid: number) => number
type Prctl = (...args: [option: number, value: number, unused: 0, unused: 0, unused: 0]) => number
type Seccomp = (...args: [call: number, operation: number, flags: number, program: object]) => number
type WaitPid = (pid: number, status: null, options: number) => number

function prctl(name: string, option: number, value: number): void {
  const call: Prctl = libc().func(
    'int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)',
  )
  expectSuccess(call(option, value, 0, 0, 0), `prctl(${name})`)
}

/** Nobody of the same user can trace this process or open its memory; it leaves no core file. */
export const forbidTracing = (): void => prctl('PR_SET_DUMPABLE', PR_SET_DUMPABLE, 0)

/** Whatever a descendant leaves behind becomes a child of this process, so nothing can get out of its sight. */
export const adoptOrphans = (): void => prctl('PR_SET_CHILD_SUBREAPER', PR_SET_CHILD_SUBREAPER, 1)

/** Bounds this process and all that it will ever start. What bounds it closer already stays so. There is no way back. */
export function limitResources(limits: ResourceLimits): void {
  const get: Limit = libc().func('int getrlimit(int, void *)')
  const set: Limit = libc().func('int setrlimit(int, void *)')
  for (const [name, resource] of Object.entries(RESOURCES)) {
    const held = new BigUint64Array(2)
    expectSuccess(get(resource, held), 'getrlimit')
    const wanted = BigInt(limits[name as keyof ResourceLimits])
    const least = held[1] !== undefined && held[1] < wanted ? held[1] : wanted
    expectSuccess(set(resource, new BigUint64Array([least, least])), 'setrlimit')
  }
}

/** What a command's score is raised to, of 1000 (`proc_pid_oom_score_adj(5)`). */
const OOM_SCORE = 500

/**
 * For the time of a call this process is a preferred victim of the kernel when memory runs out, and what it starts then
 * stays one. To be made while this process can still be traced: later it may not open its own file. Best effort: a
 * runtime may have no such file, or not let its value be lowered again.
 */
export function createOomPreference(): <T>(start: () => T) => T {
  const file = attempt(() => openSync('/proc/self/oom_score_adj', 'r+'))
  if (file === undefined) return (start) => start()
  const own = readFileSync(file, 'utf8').trim()
  const write = (score: string) => attempt(() => writeSync(file, score, 0))
  if (Number(own) >= OOM_SCORE) {
    closeSync(file)
    return (start) => start()
  }
  return (start) => {
    write(String(OOM_SCORE))
    try {
      return start()
    } finally {
      write(own)
    }
  }
}

/** Undefined where the system refuses. */
function attempt<T>(call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return undefined
  }
}

/** The process group of a process. */
export function groupOf(pid: number): number {
  const call: GroupOf = libc().func('int getpgid(int)')
  return expectSuccess(call(pid), 'getpgid')
}

/** Puts a filter on every thread of this process and on all that they will ever start. There is no way back. */
export function installSyscallFilter(program: Uint8Array): void {
  const number = SECCOMP_CALL[process.arch]
  if (number === undefined)
    throw new SandboxError('isolation_unavailable', `there is no system call filter for ${process.arch}`)
  prctl('PR_SET_NO_NEW_PRIVS', PR_SET_NO_NEW_PRIVS, 1)
  const fprog = koffi.struct({ len: 'uint16', filter: 'uint8 *' })
  const call: Seccomp = libc().func('syscall', 'long', [
    'long',
    'unsigned int',
    'unsigned int',
    koffi.pointer(fprog),
  ])
  const filter = { len: program.length / BYTES_PER_INSTRUCTION, filter: program }
  const answer = call(number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, filter)
  if (expectSuccess(answer, 'seccomp') > 0)
    throw new SandboxError('isolation_unavailable', `thread ${answer} cannot take the system call filter`)
}

/** Takes note of the end of a child that Node did not start; without it the number would stay taken. */
export function reap(pid: number): void {
  const call: WaitPid = libc().func('int waitpid(int, void *, int)')
  call(pid, null, WNOHANG)
}
