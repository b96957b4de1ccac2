/** Weight of an item, and the total weight at which `put` waits. One item may exceed it. */
type Weighing<T> = { readonly of: (item: T) => number; readonly max: number }

/** A queue with one consumer that iterates over it. `put` waits while the queue is full; `push` does not. */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #items: T[] = []
  readonly #maxItems: number
  readonly #weighing: Weighing<T> | undefined
  #weight = 0
  #changed = Promise.withResolvers<void>()
  #ended = false

  /** The limits apply to `put` only. */
  constructor(maxItems = Number.POSITIVE_INFINITY, weighing?: Weighing<T>) {
    this.#maxItems = maxItems
    this.#weighing = weighing
  }

  get size(): number {
    return this.#items.length
  }

  /** Resolves when the item is queued. After `end`, items are dropped. */
  async put(item: T): Promise<void> {
    while (this.#isFull() && !this.#ended) await this.#changed.promise
    this.push(item)
  }

  push(item: T): void {
    if (this.#ended) return
    this.#items.push(item)
    this.#weight += this.#weighing?.of(item) ?? 0
    this.#change()
  }

  /** Ends the iteration after the queued items. */
  end(): void {
    this.#ended = true
    this.#change()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    while (true) {
      const item = this.#items.shift()
      if (item !== undefined) {
        this.#weight -= this.#weighing?.of(item) ?? 0
        this.#change()
        yield item
      } else if (this.#ended) {
        return
      } else {
        await this.#changed.promise
      }
    }
  }

  #isFull(): boolean {
    const maxWeight = this.#weighing?.max ?? Number.POSITIVE_INFINITY
    return this.#items.length >= this.#maxItems || this.#weight >= maxWeight
  }

  #change(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }
}
