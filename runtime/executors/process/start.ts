import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { LAUNCHER_FD, STATUS_FD } from './command-supervisor.ts'

/** A program to start as the first process of a new session. */
export interface Program {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Without input, standard input is `/dev/null`. */
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
  /** The supervisor's status channel. Undefined if the program is not a supervisor. */
  readonly status?: Readable & Writable
  readonly exited: Promise<Exit>
}

/** Starts a program. Throws the reason if it cannot be started. */
export type Start = (program: Program) => StartedProgram | Promise<StartedProgram>

export interface NodeStartOptions {
  /** Opens the file for the launcher's descriptor 3. Closed in this process after the start. */
  readonly openLauncherFd?: (() => number) | undefined
  /** Descriptors of this process that the command would inherit. The command gets `/dev/null` instead. */
  readonly inherited?: readonly number[]
}

/** Starts programs with Node, in `/`, with the status channel of a command supervisor. */
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
      // A missing entry would become a pipe; 'ignore' leaves the descriptor unused.
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
