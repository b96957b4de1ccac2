/** Streams that go on in one turn of the event loop; what they read and encode takes a few milliseconds. */
const PER_TURN = 4

/**
 * Lets many streams share the event loop with everything else. A stream that has written its share waits for its next
 * turn; streams are served in the order in which they asked.
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
