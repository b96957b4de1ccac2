/** An unbounded hand-over between a producer that must not wait and one consumer that iterates. */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #items: T[] = []
  #wake: (() => void) | undefined
  #ended = false

  get size(): number {
    return this.#items.length
  }

  push(item: T): void {
    if (this.#ended) return
    this.#items.push(item)
    this.#wake?.()
  }

  /** Ends the iteration after what is queued. */
  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    while (true) {
      while (this.#items.length > 0) yield this.#items.shift() as T
      if (this.#ended) return
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = undefined
    }
  }
}
