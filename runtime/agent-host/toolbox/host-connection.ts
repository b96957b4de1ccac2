import type { Duplex } from 'node:stream'
import type { HeldEntries } from '../../../contracts/events.ts'
import { type HostToRunnerInput, RunnerToHost } from '../../../contracts/runner.ts'
import { messageOf } from '../../kit/errors.ts'
import { createFrameSender, type SendFrame } from '../../kit/frame-sender.ts'
import { decodeFrames, type Frame, FrameError } from '../../kit/frames.ts'

export type RunnerFrame = Frame<RunnerToHost>

/** A request that waits for frames of its id. `accept` throws a FrameError for one that makes no sense. */
export interface Pending {
  readonly accept: (frame: RunnerFrame) => void
  readonly lose: (reason: string) => void
}

/**
 * AgentHost's end of the connection. The runner is the less trusted side: a frame that no request explains ends
 * the connection.
 */
export class HostConnection {
  readonly send: SendFrame<HostToRunnerInput>
  readonly #stream: Duplex
  readonly #pending = new Map<string, Pending>()
  readonly #lost = Promise.withResolvers<string>()
  #issued = 0
  #reason: string | undefined
  /** Told of git directories that the runner renamed. Only a runner that was given a base for that may speak of any. */
  onHeld: ((held: HeldEntries) => void) | undefined

  constructor(stream: Duplex) {
    this.#stream = stream
    this.send = createFrameSender(stream)
    stream.on('error', (error) => this.giveUp(`the connection to the runner broke: ${error.message}`))
  }

  /** Settles with the first reason why the connection ended. */
  get lost(): Promise<string> {
    return this.#lost.promise
  }

  /** Reads until the connection ends; the first frame is the runner's introduction. */
  async read(onHello: (hello: RunnerToHost & { type: 'hello' }) => void): Promise<void> {
    try {
      const frames = decodeFrames(RunnerToHost, this.#stream)
      const first = await frames.next()
      if (first.done) return
      if (first.value.header.type !== 'hello') {
        throw new FrameError('unexpected', `the runner began with ${first.value.header.type}`)
      }
      onHello(first.value.header)
      for await (const frame of frames) this.#dispatch(frame)
    } catch (error) {
      this.giveUp(`the runner broke the protocol: ${messageOf(error)}`)
    } finally {
      this.giveUp('the runner closed the connection')
    }
  }

  /** Registers a request under a new id. One that the connection no longer takes is lost at once. */
  begin(pending: Pending): string {
    this.#issued++
    const id = String(this.#issued)
    if (this.#reason === undefined) this.#pending.set(id, pending)
    else pending.lose(this.#reason)
    return id
  }

  /** Forgets a request: what still comes for it is dropped. */
  end(id: string): void {
    this.#pending.delete(id)
  }

  /** Ends the connection; the first reason stays. */
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
    if (frame.header.type === 'hello')
      throw new FrameError('unexpected', 'the runner introduced itself twice')
    if (frame.header.type === 'held') {
      if (!this.onHeld) throw unexpected(frame)
      this.onHeld(frame.header.held)
      return
    }
    const { id } = frame.header
    const pending = this.#pending.get(id)
    if (pending) pending.accept(frame)
    else if (!this.#wasIssued(id)) throw new FrameError('unexpected', `nothing was asked under the id ${id}`)
  }

  #wasIssued(id: string): boolean {
    return /^[1-9]\d{0,15}$/.test(id) && Number(id) <= this.#issued
  }
}

export const unexpected = ({ header }: RunnerFrame): FrameError =>
  new FrameError('unexpected', `a frame of type ${header.type} does not answer what was asked`)
