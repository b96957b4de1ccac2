import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { signalName } from '../kit/signal-name.ts'
import { expectSuccess, expectZero, libc } from './libc.ts'

/** A program to start as the first process of a new session. It inherits only the standard descriptors. */
export interface Program {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Without input, standard input is `/dev/null`. */
  readonly hasInput: boolean
  /** Descriptor of the working directory. */
  readonly folder: number
}

export interface SpawnedProgram {
  readonly pid: number
  readonly stdin: Socket | undefined
  readonly stdout: Socket
  readonly stderr: Socket
  /** Both null if other code in this process already reaped the program. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null }>
}

/** In glibc, `posix_spawnattr_t` has 336 bytes, `posix_spawn_file_actions_t` 80 and `sigset_t` 128. */
const OPAQUE_BYTES = 512
const SIGNAL_SET_BYTES = 128

/**
 * From spawn.h: default handlers for signals that this process ignores (Node ignores SIGPIPE), no blocked
 * signals, a new session.
 */
const POSIX_SPAWN_SETSIGDEF = 0x04
const POSIX_SPAWN_SETSIGMASK = 0x08
const POSIX_SPAWN_SETSID = 0x80

/** From asm-generic/fcntl.h, linux/net.h and bits/socket.h; the same on x64 and arm64. */
const O_RDONLY = 0
const AF_UNIX = 1
const SOCK_STREAM = 1
const SOCK_CLOEXEC = 0o2_000_000

const STDERR = 2

const WNOHANG = 1

/** Node loses signals if thousands arrive at once, so ended programs are also found by polling. */
const LOOK_EVERY_MS = 500

type Call = (...args: readonly unknown[]) => number

function declareCalls() {
  const declare = (prototype: string): Call => libc().func(prototype)
  return {
    spawn: declare(
      'int posix_spawn(_Out_ int *, const char *, void *, void *, const char **, const char **)',
    ),
    initAttributes: declare('int posix_spawnattr_init(void *)'),
    setFlags: declare('int posix_spawnattr_setflags(void *, short)'),
    setDefaults: declare('int posix_spawnattr_setsigdefault(void *, void *)'),
    setMask: declare('int posix_spawnattr_setsigmask(void *, void *)'),
    initActions: declare('int posix_spawn_file_actions_init(void *)'),
    endActions: declare('int posix_spawn_file_actions_destroy(void *)'),
    addOpen: declare('int posix_spawn_file_actions_addopen(void *, int, const char *, int, unsigned int)'),
    addDup: declare('int posix_spawn_file_actions_adddup2(void *, int, int)'),
    addCloseFrom: declare('int posix_spawn_file_actions_addclosefrom_np(void *, int)'),
    addFolder: declare('int posix_spawn_file_actions_addfchdir_np(void *, int)'),
    socketPair: declare('int socketpair(int, int, int, void *)'),
    wait: declare('int waitpid(int, void *, int)'),
  }
}

type Calls = ReturnType<typeof declareCalls>

/**
 * Starts programs without forking this process. Node forks itself for every program, which takes longer than
 * the program itself under gVisor; `posix_spawn` does not. The call blocks until the program runs, and throws
 * if it cannot be started.
 */
export function createSpawner(): (program: Program) => SpawnedProgram {
  const calls = declareCalls()
  const attributes = makeAttributes(calls)
  const waiting = new Map<number, (status: number | undefined) => void>()
  let timer: NodeJS.Timeout | undefined
  const look = () => {
    for (const [pid, end] of waiting) {
      const status = new Int32Array(1)
      const answer = calls.wait(pid, status, WNOHANG)
      if (answer === 0) continue
      waiting.delete(pid)
      end(answer === pid ? status[0] : undefined)
    }
    if (waiting.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
  process.on('SIGCHLD', look)
  return (program) => {
    const ends = openEnds(calls, program)
    try {
      const pid = spawn(calls, { program, attributes, ends })
      const { promise, resolve } = Promise.withResolvers<number | undefined>()
      waiting.set(pid, resolve)
      timer ??= setInterval(look, LOOK_EVERY_MS)
      return { pid, ...streamsOf(ends, program), exited: promise.then(exitOf) }
    } catch (error) {
      closeAll(ends.map(({ ours }) => ours))
      throw error
    } finally {
      closeAll(ends.map(({ theirs }) => theirs))
    }
  }
}

function makeAttributes(calls: Calls): Buffer {
  const attributes = Buffer.alloc(OPAQUE_BYTES)
  // Filled directly: `sigfillset` omits the two signals that glibc reserves, which would then stay ignored.
  const every = Buffer.alloc(SIGNAL_SET_BYTES, 0xff)
  const none = Buffer.alloc(SIGNAL_SET_BYTES)
  expectZero(calls.initAttributes(attributes), 'posix_spawnattr_init')
  expectZero(calls.setDefaults(attributes, every), 'posix_spawnattr_setsigdefault')
  expectZero(calls.setMask(attributes, none), 'posix_spawnattr_setsigmask')
  const flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID
  expectZero(calls.setFlags(attributes, flags), 'posix_spawnattr_setflags')
  return attributes
}

/** One descriptor of the program, and this process's end of it. */
interface End {
  readonly number: number
  readonly ours: number
  readonly theirs: number
}

/**
 * All descriptors close on exec, so only the program's copies survive. They are sockets, like Node's: another
 * process of the same user could open a pipe through `/proc` and read or write it.
 */
function openEnds(calls: Calls, { hasInput }: Program): readonly End[] {
  const ends: End[] = []
  try {
    for (const number of hasInput ? [0, 1, STDERR] : [1, STDERR]) {
      const pair = new Int32Array(2)
      expectSuccess(calls.socketPair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 'socketpair')
      const [ours = -1, theirs = -1] = pair
      ends.push({ number, ours, theirs })
    }
    return ends
  } catch (error) {
    for (const { ours, theirs } of ends) closeAll([ours, theirs])
    throw error
  }
}

interface Spawning {
  readonly program: Program
  readonly attributes: Buffer
  readonly ends: readonly End[]
}

function spawn(calls: Calls, { program, attributes, ends }: Spawning): number {
  const { file, args, env } = program
  const words = [file, ...args]
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  // A C string ends at the first NUL, so the rest would be dropped silently.
  if ([...words, ...variables].some((text) => text.includes('\0')))
    throw new TypeError('a program, its arguments and its environment must not contain a NUL byte')
  const actions = Buffer.alloc(OPAQUE_BYTES)
  expectZero(calls.initActions(actions), 'posix_spawn_file_actions_init')
  try {
    addActions(calls, actions, { program, ends })
    const pid = [0]
    const answer = calls.spawn(pid, file, actions, attributes, [...words, null], [...variables, null])
    expectZero(answer, `posix_spawn of ${file}`)
    return pid[0] as number
  } finally {
    calls.endActions(actions)
  }
}

function addActions(calls: Calls, actions: Buffer, { program, ends }: Omit<Spawning, 'attributes'>): void {
  const { hasInput, folder } = program
  // The descriptors are copied one by one, so none may have the number of a later target. Node keeps the
  // standard descriptors open.
  if (ends.some(({ theirs }) => theirs <= STDERR)) throw new TypeError('a standard descriptor was closed')
  const add = (answer: number) => expectZero(answer, 'posix_spawn_file_actions')
  add(calls.addFolder(actions, folder))
  if (!hasInput) add(calls.addOpen(actions, 0, '/dev/null', O_RDONLY, 0))
  for (const { number, theirs } of ends) add(calls.addDup(actions, theirs, number))
  // Not every descriptor of this process closes on exec: its parent may have passed some.
  add(calls.addCloseFrom(actions, STDERR + 1))
}

function streamsOf(ends: readonly End[], { hasInput }: Program) {
  const stream = (number: number, way: { readable: boolean; writable: boolean }) =>
    new Socket({ fd: ends.find((end) => end.number === number)?.ours as number, ...way })
  return {
    stdin: hasInput ? stream(0, { readable: false, writable: true }) : undefined,
    stdout: stream(1, { readable: true, writable: false }),
    stderr: stream(STDERR, { readable: true, writable: false }),
  }
}

/** Decodes a wait status as wait.h does. */
function exitOf(status: number | undefined) {
  if (status === undefined) return { code: null, signal: null }
  const signal = status & 0x7f
  return signal === 0
    ? { code: (status >> 8) & 0xff, signal: null }
    : { code: null, signal: signalName(signal) }
}

function closeAll(descriptors: readonly number[]): void {
  for (const fd of descriptors) closeSync(fd)
}
