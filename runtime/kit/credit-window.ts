import { RUNNER_FRAME } from '../../contracts/runner.ts'

/** Credits that a piece of a stream uses. */
export const costOf = (piece: Uint8Array): number => piece.length + RUNNER_FRAME.costBytes

/** Flow control for a sender: it takes credits before sending, and waits while none are left. */
export class CreditWindow {
  readonly #limit: number
  #available: number
  #closed = false
  #wake: (() => void)[] = []

  constructor(bytes: number) {
    this.#limit = bytes
    this.#available = bytes
  }

  /** Waits until `bytes` may be sent. Returns false if the window is closed; then the sender must stop. */
  async take(bytes: number): Promise<boolean> {
    while (!this.#closed && this.#available < bytes) {
      await new Promise<void>((resolve) => this.#wake.push(resolve))
    }
    if (this.#closed) return false
    this.#available -= bytes
    return true
  }

  /** Releases credits that the receiver has consumed. Returns false if they exceed the credits in use. */
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
