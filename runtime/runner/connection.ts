import type { Duplex } from 'node:stream'
import { HostToRunner, RUNNER_FRAME, type RunnerToHost } from '../../contracts/runner.ts'
import { CreditWindow } from '../kit/credit-window.ts'
import { createFrameSender, type SendFrame } from '../kit/frame-sender.ts'
import { decodeFrames, type Frame, FrameError } from '../kit/frames.ts'

export type HostFrame = Frame<HostToRunner>

/** One request while it is served. */
export interface Work {
  readonly id: string
  /** Aborted by `kill` and by the end of the connection. */
  readonly signal: AbortSignal
  /** What may be under way from here to AgentHost. */
  readonly outgoing: CreditWindow
}

interface OpenWork extends Work {
  readonly abort: AbortController
  readonly receive: (frame: HostFrame) => void
}

/** The runner's end of the connection: what is being served, and how to answer. */
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

  /** Serves one request; frames with its id reach `receive` for as long as that takes. */
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

  /** Hands a frame to the request it belongs to. One that has ended meanwhile no longer needs it. */
  route(frame: HostFrame): void {
    const work = this.#open.get(frame.header.id)
    if (frame.header.type === 'kill') work?.abort.abort(new Error('cancelled by AgentHost'))
    else if (frame.header.type === 'credit') work?.outgoing.give(frame.header.bytes)
    else work?.receive(frame)
  }

  /** Ends every request that is still served. */
  abortAll(reason: Error): void {
    for (const { abort, outgoing } of this.#open.values()) {
      outgoing.close()
      abort.abort(reason)
    }
  }
}
