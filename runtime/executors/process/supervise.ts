import type { Readable, Writable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ExecRequest, ExecResult, TerminationReason } from '../../../contracts/exec.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'
import { messageOf } from '../../kit/errors.ts'
import { signalName } from '../../kit/signal-name.ts'
import { CommandClock } from './command-clock.ts'
import { COMMAND_LIMITS, type Ending, parseEnding, releaseMessage } from './command-supervisor.ts'
import { closeWhenIdle, type Drained, drain } from './drain.ts'
import { type ExpectedMount, mountProblem } from './mount-proof.ts'
import {
  childrenOf,
  descendantsOf,
  onlyChildOf,
  processesMarked,
  programOf,
  sendSignal,
  waitUntilDead,
} from './process-tree.ts'
import { type Exit, type NodeStartOptions, type Start, type StartedProgram, startByNode } from './start.ts'
import { WorkspaceFull } from './workspace-use.ts'

/** How a backend starts a command: through a command supervisor, or directly. */
export interface Launch extends NodeStartOptions {
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Starts the command directly, in its folder. Without it, Node starts the supervisor. */
  readonly start?: Start
  /** Whether the death of the launcher's child ends every process of the command. */
  readonly hasPidNamespace: boolean
  /** What the sandbox must show before the command may start. */
  readonly expected?: readonly ExpectedMount[]
  /**
   * Releases the files that are held open until the sandbox was verified. Called exactly once, also if the
   * command never started.
   */
  readonly release?: () => void
  /** An entry `NAME=value` of `env` that identifies processes of a command without a namespace, or of a launcher. */
  readonly marker?: string
  /**
   * Kills processes that only the backend can find. May be called during the run, and always at the end, also
   * if the command never started.
   */
  readonly onEnded?: () => Promise<void>
}

/** Time between SIGTERM and SIGKILL. */
export const GRACE_MS = 2_000

/** First delay before SIGTERM is sent to new processes. It doubles each time. */
const ASK_AGAIN_MS = 20

/** Longest wait for a killed namespace to disappear before the result is returned anyway. */
const VANISH_MS = 1_000

const MAX_DIAGNOSTIC_CHARS = 4_096

const STOPPED_EARLY = 'The command was stopped before it started.'

/** Why this process stops a command. */
type StopReason = Extract<TerminationReason, 'timeout' | 'cancelled' | 'workspace_full'>

/** Runs one command to its end. Never throws for anything that the command did. Rejects if `onChunk` rejects. */
export async function supervise(launch: Launch, request: ExecRequest, io: ExecIo): Promise<ExecResult> {
  const run = new Run(launch, request, io)
  return run.result()
}

function killMarked(marker: string): void {
  for (const one of processesMarked(marker)) sendSignal(one, 'SIGKILL')
}

export function notStarted(reason: TerminationReason, message: string, startedAt?: number): ExecResult {
  return {
    exitCode: null,
    signal: null,
    timedOut: reason === 'timeout',
    outputTruncated: false,
    stdoutBytes: 0,
    stderrBytes: 0,
    reason,
    durationMs: startedAt === undefined ? 0 : performance.now() - startedAt,
    message,
  }
}

class Run {
  readonly #launch: Launch
  readonly #request: ExecRequest
  readonly #io: ExecIo
  readonly #startedAt = performance.now()
  /** The first reason to stop the command. Later reasons do not replace it. */
  #stopReason: StopReason | undefined
  /** Says why the workspace is full. */
  #fullReason: string | undefined
  #child: StartedProgram | undefined
  #hasExited = false
  /** The first process of the sandbox. When it dies, the kernel kills all others. */
  #leader: number | undefined
  #askTimer: NodeJS.Timeout | undefined
  #killTimer: NodeJS.Timeout | undefined
  #isReleased = false
  #isHeld = true

  constructor(launch: Launch, request: ExecRequest, io: ExecIo) {
    this.#launch = launch
    this.#request = request
    this.#io = io
  }

  async result(): Promise<ExecResult> {
    const { signal } = this.#io
    if (signal?.aborted) {
      this.#release()
      await this.#launch.onEnded?.()
      return this.#notStarted('cancelled', 'The command was cancelled before it started.')
    }
    const onAbort = () => {
      const reason: unknown = signal?.reason
      const isFull = reason instanceof WorkspaceFull
      if (isFull) this.#fullReason ??= reason.message
      this.#stop(isFull ? 'workspace_full' : 'cancelled')
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    const clock = new CommandClock({
      timeoutMs: this.#request.timeoutMs,
      onTimeout: () => this.#stop('timeout'),
      processes: () => this.#processes(),
      freezing: this.#io.freezing,
    })
    try {
      return await this.#run()
    } finally {
      clock.end()
      clearTimeout(this.#askTimer)
      clearTimeout(this.#killTimer)
      signal?.removeEventListener('abort', onAbort)
      this.#release()
      await this.#launch.onEnded?.()
    }
  }

  async #run(): Promise<ExecResult> {
    let child: StartedProgram
    try {
      child = await this.#start()
    } catch (error) {
      return this.#notStarted('spawn_failed', messageOf(error))
    }
    const { exited } = child
    void exited.then(() => (this.#hasExited = true))
    const said = child.status && new StatusLines(child.status)
    const result = said ? await this.#handOver(child, said) : this.#begin(child)
    if (result) return result
    const outputs = await this.#drain(child)
    const exit = await exited
    if (!said) return this.#ended(outputs, ownEnding(exit))
    const rest = await said.end
    if (this.#leader !== undefined) await waitUntilDead(this.#leader, VANISH_MS)
    return this.#ended(outputs, endingOf(rest, exit))
  }

  /** Signals the supervisor to start the command. Returns a result if it could not start. */
  async #handOver(child: StartedProgram, said: StatusLines): Promise<ExecResult | undefined> {
    const failure = await Promise.race([said.ready, child.exited])
    if (failure !== 'ready') return this.#neverReady(child, said, failure)
    const problem = this.#problemOf(child)
    this.#release()
    if (problem !== undefined) return this.#refused(child, problem)
    this.#begin(child)
    return undefined
  }

  async #start(): Promise<StartedProgram> {
    const { file, args, env, start = startByNode(this.#launch) } = this.#launch
    const hasInput = this.#io.stdin !== undefined
    this.#child = await start({ file, args, env, hasInput })
    return this.#child
  }

  /** Returns a problem of the prepared sandbox, before its command starts. */
  #problemOf({ pid }: StartedProgram): string | undefined {
    const { hasPidNamespace, expected = [] } = this.#launch
    if (hasPidNamespace) this.#leader = onlyChildOf(pid)
    return mountProblem(this.#leader, expected)
  }

  #release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#launch.release?.()
  }

  /** Releases the command, unless it must already stop. */
  #begin(child: StartedProgram): undefined {
    if (this.#stopReason) {
      this.#kill()
      child.stdin?.destroy()
      return
    }
    this.#isReleased = true
    child.status?.end(releaseMessage(this.#request.environment))
    feedStdin(child, this.#io.stdin)
  }

  /** Reads both streams to the end. If a reader fails, the command is killed. */
  async #drain({ stdout, stderr, exited }: StartedProgram): Promise<[Drained, Drained]> {
    const { onChunk } = this.#io
    const maxBytes = this.#request.maxOutputBytes
    const draining = [
      drain(stdout, { stream: 'stdout', maxBytes, onChunk }),
      drain(stderr, { stream: 'stderr', maxBytes, onChunk }),
    ] as const
    const done = Promise.all(draining)
    if (!this.#launch.hasPidNamespace) void exited.then(() => this.#sweep([stdout, stderr], done))
    try {
      return await done
    } catch (error) {
      this.#kill()
      await Promise.allSettled(draining)
      throw error
    }
  }

  /** Without a PID namespace, this process must kill everything that the command left behind. */
  async #sweep(outputs: readonly Readable[], done: Promise<unknown>): Promise<void> {
    // The backend finds processes that hold no output open, if it can.
    if (this.#launch.onEnded && (await endsAtOnce(done))) return
    this.#kill()
    // A remaining process may write forever. An error here occurs again at the end, which reports it.
    await this.#launch.onEnded?.().catch(() => undefined)
    await closeWhenIdle(outputs, done)
  }

  #stop(reason: StopReason): void {
    if (this.#stopReason || this.#hasExited) return
    this.#stopReason = reason
    const pid = this.#child?.pid
    if (pid === undefined) return
    if (!this.#isReleased) {
      this.#kill()
      return
    }
    this.#killTimer = setTimeout(() => this.#kill(), GRACE_MS)
    this.#ask(new Set(), ASK_AGAIN_MS)
  }

  /**
   * Sends SIGTERM once to each program of the command, and repeats for processes that started, or executed
   * another program, since. The supervisor's child ignores SIGTERM like the supervisor until it becomes the
   * command's shell.
   */
  #ask(asked: Set<string>, againMs: number): void {
    const child = this.#child
    if (child === undefined || this.#hasExited) return
    const tree = this.#processes()
    // A fork bomb would use the grace period to grow.
    if (tree.length > COMMAND_LIMITS.processes) {
      this.#kill()
      return
    }
    for (const pid of tree) {
      const program = `${pid} ${programOf(pid)}`
      if (asked.has(program)) continue
      asked.add(program)
      sendSignal(pid, 'SIGTERM')
    }
    this.#askTimer = setTimeout(() => this.#ask(asked, againMs * 2), againMs)
  }

  /** The processes of the command, without the launcher of a supervisor. */
  #processes(): number[] {
    const { pid, status } = this.#child ?? {}
    return pid === undefined ? [] : [...(status ? [] : [pid]), ...descendantsOf(pid)]
  }

  /** Kills the launcher and its children. In a PID namespace, the kernel kills the rest with its first process. */
  #kill(): void {
    const pid = this.#child?.pid
    if (pid === undefined) return
    const { hasPidNamespace, marker } = this.#launch
    const tree = hasPidNamespace ? childrenOf(pid) : descendantsOf(pid)
    sendSignal(-pid, 'SIGKILL')
    for (const one of tree) sendSignal(one, 'SIGKILL')
    if (marker !== undefined) killMarked(marker)
  }

  #notStarted(reason: TerminationReason, message: string): ExecResult {
    return notStarted(reason, message, this.#startedAt)
  }

  /**
   * If the command was stopped before, that is the reason: the stop may have killed the processes that were
   * checked.
   */
  async #refused({ stdout, stderr, exited }: StartedProgram, problem: string): Promise<ExecResult> {
    this.#kill()
    for (const output of [stdout, stderr]) output.destroy()
    await exited
    if (this.#leader !== undefined) await waitUntilDead(this.#leader, VANISH_MS)
    return this.#stopReason
      ? this.#notStarted(this.#stopReason, STOPPED_EARLY)
      : this.#notStarted('spawn_failed', problem)
  }

  async #neverReady(child: StartedProgram, said: StatusLines, failure: Exit): Promise<ExecResult> {
    child.stdout.destroy()
    const { marker } = this.#launch
    // A launcher that was killed early leaves its child, which keeps the outputs open.
    if (marker !== undefined) killMarked(marker)
    if (this.#stopReason) return this.#notStarted(this.#stopReason, STOPPED_EARLY)
    const launcherSaid = await textOf(child.stderr)
    const words = `${await said.end}${launcherSaid}`.trim().slice(0, MAX_DIAGNOSTIC_CHARS)
    const why = words || `the launcher exited with ${failure.code ?? failure.signal}`
    return this.#notStarted('spawn_failed', why)
  }

  #ended([stdout, stderr]: [Drained, Drained], ending: Ending): ExecResult {
    const byItself = ending.kind === 'unknown' ? 'lost' : ending.kind
    const reason = this.#stopReason ?? byItself
    return {
      exitCode: ending.kind === 'exit' ? ending.code : null,
      signal: ending.kind === 'signal' ? ending.signal : null,
      timedOut: reason === 'timeout',
      outputTruncated: stdout.truncated || stderr.truncated,
      stdoutBytes: stdout.bytes,
      stderrBytes: stderr.bytes,
      reason,
      durationMs: performance.now() - this.#startedAt,
      ...this.#message(reason),
    }
  }

  #message(reason: TerminationReason): { message?: string } {
    if (reason === 'timeout') return { message: `Stopped after ${this.#request.timeoutMs} ms.` }
    if (reason === 'cancelled') return { message: 'Stopped because it was cancelled.' }
    if (reason === 'workspace_full') return { message: `Stopped because ${this.#fullReason}` }
    if (reason === 'lost')
      return { message: 'The command killed its own supervisor, so its result is unknown.' }
    return {}
  }
}

const ownEnding = ({ code, signal }: Exit): Ending => {
  if (code !== null) return { kind: 'exit', code }
  return signal === null ? { kind: 'unknown' } : { kind: 'signal', signal }
}

/** Turns of the event loop until both output streams report their end after the last writer is gone. */
const TURNS = 4

async function endsAtOnce(done: Promise<unknown>): Promise<boolean> {
  let isDone = false
  const note = () => (isDone = true)
  done.then(note, note)
  for (let turn = 0; turn < TURNS && !isDone; turn++) await nextTurn()
  return isDone
}

/** Prefers the supervisor's report. A killed supervisor sends none; the launcher's exit status is used instead. */
function endingOf(rest: string, exit: Exit): Ending {
  const ending = parseEnding(rest)
  if (ending.kind !== 'unknown') return ending
  const signal =
    exit.signal ?? (exit.code !== null && exit.code > 128 ? signalName(exit.code - 128) : undefined)
  return signal === undefined ? ending : { kind: 'signal', signal }
}

/** The supervisor's side of the status channel. */
class StatusLines {
  readonly ready: Promise<'ready'>
  /** Everything that the supervisor wrote, except `ready`. */
  readonly end: Promise<string>

  constructor(status: Readable & Writable) {
    const { promise, resolve } = Promise.withResolvers<'ready'>()
    const ended = Promise.withResolvers<string>()
    let text = ''
    status.setEncoding('utf8')
    status.on('data', (piece: string) => {
      text = (text + piece).slice(-MAX_DIAGNOSTIC_CHARS)
      const lines = text.split('\n')
      const at = lines.indexOf('ready')
      if (at < 0 || at === lines.length - 1) return
      text = lines.toSpliced(at, 1).join('\n')
      resolve('ready')
    })
    // A killed supervisor resets the connection, which counts as its end.
    status.on('error', () => status.destroy())
    status.on('close', () => ended.resolve(text))
    this.ready = promise
    this.end = ended.promise
  }
}

/** A command may end without reading its input. The broken pipe is not an error. */
function feedStdin({ stdin }: StartedProgram, input: Uint8Array | undefined): void {
  if (!stdin || !input) return
  stdin.on('error', () => stdin.destroy())
  stdin.end(input)
}

async function textOf(readable: Readable): Promise<string> {
  let text = ''
  for await (const chunk of readable) if (text.length < MAX_DIAGNOSTIC_CHARS) text += String(chunk)
  return text
}
