/** Number of streams that continue in one turn of the event loop. Reading and encoding for them takes milliseconds. */
const PER_TURN = 4

/**
 * Shares the event loop between many streams and all other work. A stream that has written its share waits for its next
 * turn, in the order of the requests.
 */
export class Turns {
  readonly #waiting: (() => void)[] = []
  #isScheduled = false

  next(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    this.#schedule()
    return promise
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      for (const resolve of this.#waiting.splice(0, PER_TURN)) resolve()
      this.#schedule()
    })
  }
}
