import { RUNNER_FRAME } from '../../contracts/runner.ts'

/** What a piece of a stream counts in the window. */
export const costOf = (piece: Uint8Array): number => piece.length + RUNNER_FRAME.costBytes

/** What a sender may have under way: it takes before it sends and waits while the window is used up. */
export class CreditWindow {
  readonly #limit: number
  #available: number
  #closed = false
  #wake: (() => void)[] = []

  constructor(bytes: number) {
    this.#limit = bytes
    this.#available = bytes
  }

  /** Waits until `bytes` may be sent. False once the window is closed: then nothing more is to be sent. */
  async take(bytes: number): Promise<boolean> {
    while (!this.#closed && this.#available < bytes) {
      await new Promise<void>((resolve) => this.#wake.push(resolve))
    }
    if (this.#closed) return false
    this.#available -= bytes
    return true
  }

  /** Gives back what the receiver consumed. False where that is more than was taken. */
  give(bytes: number): boolean {
    this.#available += bytes
    this.#wakeAll()
    return this.#available <= this.#limit
  }

  /** Ends every wait. */
  close(): void {
    this.#closed = true
    this.#wakeAll()
  }

  #wakeAll(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}
