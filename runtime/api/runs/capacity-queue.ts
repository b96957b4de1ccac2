type Waiting = { readonly owner: string; readonly wake: () => void }

/**
 * Runs that wait for room. Each room wakes one of them: the owner's that was woken longest ago, and of an owner's runs
 * the first that came. One that nobody wakes tries again by itself.
 */
export class CapacityQueue {
  readonly #waiting: Waiting[] = []
  /** When each owner was last given room, in the order of the rooms. */
  readonly #served = new Map<string, number>()
  #rooms = 0

  get length(): number {
    return this.#waiting.length
  }

  /** Waits for this run's turn, for `timeoutMs` at most; rejects with the signal's reason. */
  async wait(owner: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting = { owner, wake: resolve }
    const timer = setTimeout(resolve, timeoutMs)
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    this.#waiting.push(waiting)
    try {
      await promise
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      this.#leave(waiting)
    }
  }

  /** There may be room for one more. */
  noteRoom(): void {
    const next = this.#waiting.reduce<Waiting | undefined>(
      (first, one) => (first && this.#servedAt(first) <= this.#servedAt(one) ? first : one),
      undefined,
    )
    if (!next) return
    this.#rooms += 1
    this.#served.set(next.owner, this.#rooms)
    this.#leave(next)
    next.wake()
  }

  #servedAt({ owner }: Waiting): number {
    return this.#served.get(owner) ?? 0
  }

  #leave(waiting: Waiting): void {
    const place = this.#waiting.indexOf(waiting)
    if (place >= 0) this.#waiting.splice(place, 1)
    if (this.#waiting.length === 0) this.#served.clear()
  }
}
