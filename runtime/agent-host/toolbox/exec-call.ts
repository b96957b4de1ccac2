import { ExecRequest, type ExecResult, type OutputStream } from '../../../contracts/exec.ts'
import { RUNNER_FRAME } from '../../../contracts/runner.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'
import { failedExec } from '../../kit/failed-exec.ts'
import { problemsOf } from '../../kit/parse-env.ts'
import { type HostConnection, type RunnerFrame, unexpected } from './host-connection.ts'
import { IncomingStream } from './incoming-stream.ts'

/** Time beyond the command's own timeout in which the runner must kill it, drain its output and report the result. */
const GRACE_MS = 30_000

/** Runs one command through the runner. Throws only errors of `onChunk`; every other failure is in the result. */
export async function execCall(
  connection: HostConnection,
  request: ExecRequest,
  io: ExecIo,
): Promise<ExecResult> {
  const parsed = ExecRequest.safeParse(request)
  if (!parsed.success) return failedExec('spawn_failed', problemsOf(parsed.error))
  if (io.signal?.aborted) return failedExec('cancelled', 'cancelled before it started')
  return new ExecCall(connection, parsed.data, io).run()
}

interface Chunk {
  readonly stream: OutputStream
  readonly bytes: Uint8Array
}

class ExecCall {
  readonly #connection: HostConnection
  readonly #request: ExecRequest
  readonly #io: ExecIo
  readonly #output: IncomingStream<Chunk>
  readonly #ended = Promise.withResolvers<ExecResult>()
  readonly #id: string
  readonly #startedAt = performance.now()

  constructor(connection: HostConnection, request: ExecRequest, io: ExecIo) {
    this.#connection = connection
    this.#request = request
    this.#io = io
    this.#output = new IncomingStream(connection)
    this.#id = connection.begin({
      accept: (frame) => this.#accept(frame),
      lose: (reason) => this.#settle({ ...failedExec('lost', reason), durationMs: this.#elapsedMs }),
    })
  }

  get #elapsedMs(): number {
    return performance.now() - this.#startedAt
  }

  async run(): Promise<ExecResult> {
    const kill = () => void this.#connection.send({ type: 'kill', id: this.#id })
    this.#io.signal?.addEventListener('abort', kill, { once: true })
    const watch = this.#watch()
    try {
      await this.#start()
      await this.#deliver(kill)
      return await this.#ended.promise
    } finally {
      clearInterval(watch)
      this.#io.signal?.removeEventListener('abort', kill)
      this.#connection.end(this.#id)
    }
  }

  async #start(): Promise<void> {
    const { stdin } = this.#io
    const id = this.#id
    await this.#connection.send({ type: 'exec', id, request: this.#request, stdin: stdin !== undefined })
    if (stdin === undefined) return
    for (let at = 0; at < stdin.length; at += RUNNER_FRAME.maxChunkBytes) {
      await this.#connection.send({ type: 'stdin', id }, stdin.subarray(at, at + RUNNER_FRAME.maxChunkBytes))
    }
    await this.#connection.send({ type: 'stdin', id, end: true })
  }

  /** If the consumer throws, kills the command, waits for its end, and rethrows. */
  async #deliver(kill: () => void): Promise<void> {
    try {
      for await (const { stream, bytes } of this.#output.consume(this.#id)) {
        await this.#io.onChunk(stream, bytes)
      }
    } catch (error) {
      kill()
      await this.#drain()
      throw error
    }
  }

  async #drain(): Promise<void> {
    for await (const _ of this.#output.consume(this.#id));
    await this.#ended.promise
  }

  #accept(frame: RunnerFrame): void {
    const { header, payload } = frame
    if (header.type === 'chunk') this.#output.push({ stream: header.stream, bytes: payload })
    else if (header.type === 'exit') this.#settle(header.result)
    else throw unexpected(frame)
  }

  #settle(result: ExecResult): void {
    this.#ended.resolve(result)
    this.#output.end()
  }

  /** Closes the connection if the runner exceeds the command's timeout. Time in which our own reader is behind, or commands are frozen, is not counted. */
  #watch(): NodeJS.Timeout {
    let behindMs = 0
    const everyMs = 1000
    const watch = setInterval(() => {
      if (this.#output.isBehind || this.#connection.isFrozen) behindMs += everyMs
      if (this.#elapsedMs - behindMs < this.#request.timeoutMs + GRACE_MS) return
      this.#connection.giveUp('the runner did not end a command in time')
    }, everyMs)
    return watch.unref()
  }
}
