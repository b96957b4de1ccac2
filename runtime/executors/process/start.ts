import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { LAUNCHER_FD, STATUS_FD } from './witness.ts'

/** The first process of a session of its own. */
export interface Program {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Without input it reads from `/dev/null`. */
  readonly hasInput: boolean
}

export interface Exit {
  readonly code: number | null
  readonly signal: string | null
}

export interface StartedProgram {
  readonly pid: number
  readonly stdin: Writable | undefined
  readonly stdout: Readable
  readonly stderr: Readable
  /** What the witness says and hears, where it is one. */
  readonly status?: Readable & Writable
  readonly exited: Promise<Exit>
}

/** Starts a program, or throws why it cannot be started. */
export type Start = (program: Program) => StartedProgram | Promise<StartedProgram>

export interface NodeStartOptions {
  /** Opens what becomes the launcher's descriptor 3; ours is closed once it has it. */
  readonly openLauncherFd?: (() => number) | undefined
  /** Descriptors of ours that would leak into the command; it gets `/dev/null` in their place. */
  readonly inherited?: readonly number[]
}

/** As Node starts programs, which may be of any platform: in `/`, with the status channel of a witness. */
export function startByNode({ openLauncherFd, inherited = [] }: NodeStartOptions): Start {
  return async ({ file, args, env, hasInput }) => {
    const opened: number[] = []
    const open = (make: () => number): number => {
      const fd = make()
      opened.push(fd)
      return fd
    }
    const stdio: StdioOptions = [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe']
    let child: ChildProcess
    try {
      stdio[LAUNCHER_FD] = openLauncherFd ? open(openLauncherFd) : 'ignore'
      stdio[STATUS_FD] = 'pipe'
      for (const fd of inherited) stdio[fd] = open(() => openSync('/dev/null', 'r'))
      // An absent entry would be a pipe; 'ignore' leaves the number unused.
      const entries = Array.from(stdio, (entry) => entry ?? 'ignore')
      child = spawn(file, args, { stdio: entries, env: { ...env }, cwd: '/', detached: true })
    } finally {
      for (const fd of opened) closeSync(fd)
    }
    return started(child)
  }
}

async function started(child: ChildProcess): Promise<StartedProgram> {
  const { promise: exited, resolve } = Promise.withResolvers<Exit>()
  child.once('exit', (code, signal) => resolve({ code, signal }))
  const { pid, stdin, stdout, stderr } = child
  if (pid === undefined) {
    const [error] = await once(child, 'error')
    throw error
  }
  return {
    pid,
    stdin: stdin ?? undefined,
    stdout: stdout as Readable,
    stderr: stderr as Readable,
    status: child.stdio[STATUS_FD] as Readable & Writable,
    exited,
  }
}
