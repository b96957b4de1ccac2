/** A hand-over to one consumer that iterates. A producer that can wait uses `put`, which waits while it is full. */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #items: T[] = []
  readonly #maxItems: number
  #changed = Promise.withResolvers<void>()
  #ended = false

  /** @param maxItems what `put` keeps to; `push` never waits */
  constructor(maxItems = Number.POSITIVE_INFINITY) {
    this.#maxItems = maxItems
  }

  get size(): number {
    return this.#items.length
  }

  /** Resolves when the item is queued; after the end nothing is. */
  async put(item: T): Promise<void> {
    while (this.#items.length >= this.#maxItems && !this.#ended) await this.#changed.promise
    this.push(item)
  }

  push(item: T): void {
    if (this.#ended) return
    this.#items.push(item)
    this.#change()
  }

  /** Ends the iteration after what is queued. */
  end(): void {
    this.#ended = true
    this.#change()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    while (true) {
      const item = this.#items.shift()
      if (item !== undefined) {
        this.#change()
        yield item
      } else if (this.#ended) {
        return
      } else {
        await this.#changed.promise
      }
    }
  }

  #change(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }
}
