import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import koffi from 'koffi'
import { errnoOf, SandboxError } from '../kit/errors.ts'
import { expectSuccess, libc } from './libc.ts'

/** From linux/prctl.h. */
const PR_SET_DUMPABLE = 4
const PR_SET_CHILD_SUBREAPER = 36
const PR_SET_NO_NEW_PRIVS = 38

/** From linux/seccomp.h, and the number of the call in each table. */
const SECCOMP_SET_MODE_FILTER = 1
const SECCOMP_FILTER_FLAG_TSYNC = 1
const SECCOMP_CALL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 317, arm64: 277 }
const BYTES_PER_INSTRUCTION = 8

const WNOHANG = 1

/** From asm-generic/resource.h, the same on x64 and arm64. */
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

/**
 * Prevents processes of the same user from tracing this process or reading its memory. Also disables core
 * dumps.
 */
export const forbidTracing = (): void => prctl('PR_SET_DUMPABLE', PR_SET_DUMPABLE, 0)

/**
 * Makes this process a child subreaper: orphans of its descendants become its children, so it can find all of
 * them.
 */
export const adoptOrphans = (): void => prctl('PR_SET_CHILD_SUBREAPER', PR_SET_CHILD_SUBREAPER, 1)

/** Limits this process and everything that it starts. Lower existing limits are kept. Cannot be undone. */
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

/** OOM score of commands, of 1000 (`proc_pid_oom_score_adj(5)`). */
const OOM_SCORE = 500

/**
 * Raises the OOM score of this process during a call, so that processes started in it are killed first when
 * memory runs out. Must be created while this process is still traceable: afterwards it cannot open its own
 * file. Best effort: a runtime may not have this file, or not allow lowering the score again.
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

/** Returns undefined if the system call fails. */
function attempt<T>(call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return undefined
  }
}

export function groupOf(pid: number): number {
  const call: GroupOf = libc().func('int getpgid(int)')
  return expectSuccess(call(pid), 'getpgid')
}

/** Applies a filter to every thread of this process and everything that it starts. Cannot be undone. */
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

/** Reaps a child that Node did not start. Otherwise its process id would stay in use. */
export function reap(pid: number): void {
  const call: WaitPid = libc().func('int waitpid(int, void *, int)')
  call(pid, null, WNOHANG)
}
