import type { Duplex } from 'node:stream'
import type { HeldEntries } from '../../../contracts/events.ts'
import type { WorkspaceUsage } from '../../../contracts/exec.ts'
import { type HostToRunnerInput, RunnerToHost } from '../../../contracts/runner.ts'
import { messageOf } from '../../kit/errors.ts'
import { createFrameSender, type SendFrame } from '../../kit/frame-sender.ts'
import { decodeFrames, type Frame, FrameError } from '../../kit/frames.ts'

export type RunnerFrame = Frame<RunnerToHost>

/** A request that waits for its answer. `accept` throws a FrameError for an unexpected frame. */
export interface Pending {
  readonly accept: (frame: RunnerFrame) => void
  readonly lose: (reason: string) => void
}

/** AgentHost's side of the connection. The runner is the less trusted side, so any unexpected frame ends the connection. */
export class HostConnection {
  readonly send: SendFrame<HostToRunnerInput>
  readonly #stream: Duplex
  readonly #pending = new Map<string, Pending>()
  readonly #lost = Promise.withResolvers<string>()
  #issued = 0
  #reason: string | undefined
  /** Whether the runner's commands are stopped: their time does not pass. */
  isFrozen = false
  /** Called with git directories that the runner renamed. While it is unset, such a frame is a protocol error. */
  onHeld: ((held: HeldEntries) => void) | undefined

  /** Called with each report about the use of the workspace. */
  onUsage: (usage: WorkspaceUsage) => void = () => undefined

  constructor(stream: Duplex) {
    this.#stream = stream
    this.send = createFrameSender(stream)
    stream.on('error', (error) => this.giveUp(`the connection to the runner broke: ${error.message}`))
  }

  /** Resolves with the reason why the connection ended. */
  get lost(): Promise<string> {
    return this.#lost.promise
  }

  /** Reads until the connection ends. The first frame must be `hello`. */
  async read(onHello: (hello: RunnerToHost & { type: 'hello' }) => void): Promise<void> {
    try {
      const frames = decodeFrames(RunnerToHost, this.#stream)
      const first = await frames.next()
      if (first.done) return
      if (first.value.header.type !== 'hello') {
        throw new FrameError('unexpected', `the first frame must be hello, not ${first.value.header.type}`)
      }
      onHello(first.value.header)
      for await (const frame of frames) this.#dispatch(frame)
    } catch (error) {
      this.giveUp(`the runner broke the protocol: ${messageOf(error)}`)
    } finally {
      this.giveUp('the runner closed the connection')
    }
  }

  /** Registers a request under a new id. If the connection has ended, calls `lose` at once. */
  begin(pending: Pending): string {
    this.#issued++
    const id = String(this.#issued)
    if (this.#reason === undefined) this.#pending.set(id, pending)
    else pending.lose(this.#reason)
    return id
  }

  /** Removes a request. Later frames for it are ignored. */
  end(id: string): void {
    this.#pending.delete(id)
  }

  /** Ends the connection. The first reason is kept. */
  giveUp(reason: string): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#stream.destroy()
    const pending = [...this.#pending.values()]
    this.#pending.clear()
    for (const { lose } of pending) lose(reason)
    this.#lost.resolve(reason)
  }

  #dispatch(frame: RunnerFrame): void {
    if (frame.header.type === 'hello') throw new FrameError('unexpected', 'the runner sent hello twice')
    if (frame.header.type === 'held') {
      if (!this.onHeld) throw unexpected(frame)
      this.onHeld(frame.header.held)
      return
    }
    if (frame.header.type === 'usage') {
      this.onUsage(frame.header.usage)
      return
    }
    const { id } = frame.header
    const pending = this.#pending.get(id)
    if (pending) pending.accept(frame)
    else if (!this.#wasIssued(id)) throw new FrameError('unexpected', `no request has the id ${id}`)
  }

  #wasIssued(id: string): boolean {
    return /^[1-9]\d{0,15}$/.test(id) && Number(id) <= this.#issued
  }
}

export const unexpected = ({ header }: RunnerFrame): FrameError =>
  new FrameError('unexpected', `a frame of type ${header.type} does not match the request`)
