import type { Duplex } from 'node:stream'
import { HostToRunner, RUNNER_FRAME, type RunnerToHost } from '../../contracts/runner.ts'
import { CreditWindow } from '../kit/credit-window.ts'
import { createFrameSender, type SendFrame } from '../kit/frame-sender.ts'
import { decodeFrames, type Frame, FrameError } from '../kit/frames.ts'

export type HostFrame = Frame<HostToRunner>

/** A request while it is served. */
export interface Work {
  readonly id: string
  /** Aborted by a `kill` frame and by the end of the connection. */
  readonly signal: AbortSignal
  /** Send window towards AgentHost. */
  readonly outgoing: CreditWindow
}

interface OpenWork extends Work {
  readonly abort: AbortController
  readonly receive: (frame: HostFrame) => void
}

/** The runner's side of the connection: the open requests, and sending. */
export class Connection {
  readonly send: SendFrame<RunnerToHost>
  readonly #stream: Duplex
  readonly #open = new Map<string, OpenWork>()

  constructor(stream: Duplex) {
    this.#stream = stream
    this.send = createFrameSender(stream)
  }

  frames(): AsyncGenerator<HostFrame> {
    return decodeFrames(HostToRunner, this.#stream)
  }

  get openCount(): number {
    return this.#open.size
  }

  /** Serves one request. Until it ends, frames with its id are passed to `receive`. */
  async serve(
    id: string,
    work: (work: Work) => Promise<void>,
    receive: (frame: HostFrame) => void = () => undefined,
  ): Promise<void> {
    if (this.#open.has(id)) throw new FrameError('id_reused', `the id ${id} is in use`)
    const abort = new AbortController()
    const outgoing = new CreditWindow(RUNNER_FRAME.windowBytes)
    const open = { id, abort, signal: abort.signal, outgoing, receive }
    this.#open.set(id, open)
    try {
      await work(open)
    } finally {
      this.#open.delete(id)
    }
  }

  /** Passes a frame to its request. Frames for a request that has ended are dropped. */
  route(frame: HostFrame): void {
    const work = this.#open.get(frame.header.id)
    if (frame.header.type === 'kill') work?.abort.abort(new Error('cancelled by AgentHost'))
    else if (frame.header.type === 'credit') work?.outgoing.give(frame.header.bytes)
    else work?.receive(frame)
  }

  /** Aborts all open requests. */
  abortAll(reason: Error): void {
    for (const { abort, outgoing } of this.#open.values()) {
      outgoing.close()
      abort.abort(reason)
    }
  }
}
