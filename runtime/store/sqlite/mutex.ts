/** Serves waiters in the order in which they came. */
export class Mutex {
  #tail: Promise<void> = Promise.resolve()

  /** Resolves with the function that lets the next one in. */
  async lock(): Promise<() => void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const turn = this.#tail
    this.#tail = promise
    await turn
    return resolve
  }
}
