import { RUNNER_FRAME } from '../../../contracts/runner.ts'
import { AsyncQueue } from '../../kit/async-queue.ts'
import { costOf } from '../../kit/credit-window.ts'
import { FrameError } from '../../kit/frames.ts'
import type { HostConnection } from './host-connection.ts'

/** Buffers at most one flow-control window of a stream from the runner. Each piece is credited after it was consumed. */
export class IncomingStream<Piece extends { readonly bytes: Uint8Array }> {
  readonly #queue = new AsyncQueue<Piece>()
  readonly #connection: HostConnection
  #waiting = 0

  constructor(connection: HostConnection) {
    this.#connection = connection
  }

  /** Whether the consumer has not taken everything that arrived. */
  get isBehind(): boolean {
    return this.#waiting > 0
  }

  push(piece: Piece): void {
    this.#waiting += costOf(piece.bytes)
    if (this.#waiting > RUNNER_FRAME.windowBytes) {
      throw new FrameError('window_exceeded', 'the runner sent more than its flow-control window')
    }
    this.#queue.push(piece)
  }

  end(): void {
    this.#queue.end()
  }

  /** The pieces in order. One counts as consumed when the next is asked for. */
  async *consume(id: string): AsyncGenerator<Piece> {
    for await (const piece of this.#queue) {
      yield piece
      const bytes = costOf(piece.bytes)
      this.#waiting -= bytes
      await this.#connection.send({ type: 'credit', id, bytes })
    }
  }
}
