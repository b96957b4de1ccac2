type Waiting = { readonly owner: string; readonly wake: () => void; isReady: boolean }

/** Maximum wait of a run, and minimum wait even if there is room. */
export type Patience = { readonly atLeastMs: number; readonly atMostMs: number }

/**
 * Runs that wait for room. Each free place wakes one run: of the owner who was served longest ago, the oldest run. A
 * run that is not woken tries again after its maximum wait. No run tries again at once, because a free place may only
 * be the end of another run's failed attempt.
 */
export class CapacityQueue {
  readonly #waiting: Waiting[] = []
  /** When each owner was last given room, in the order of the rooms. */
  readonly #served = new Map<string, number>()
  #rooms = 0
  /** Runs that wait or try. */
  #runs = 0
  /** Places that became free while no run could try, or while all tried. Such an attempt saw the state before. */
  #unused = 0

  get length(): number {
    return this.#waiting.length
  }

  /** While this is under way, which tries and waits in turn, no room is missed between the two. */
  async during<T>(tryAndWait: () => Promise<T>): Promise<T> {
    this.#runs += 1
    try {
      return await tryAndWait()
    } finally {
      this.#runs -= 1
      this.#unused = Math.min(this.#unused, this.#runs)
    }
  }

  /** Waits for this run's turn, inside `during`; rejects with the signal's reason. */
  async wait(owner: string, { atLeastMs, atMostMs }: Patience, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting: Waiting = { owner, wake: resolve, isReady: false }
    const timers = [setTimeout(() => this.#makeReady(waiting), atLeastMs), setTimeout(resolve, atMostMs)]
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    this.#waiting.push(waiting)
    if (atLeastMs === 0) this.#makeReady(waiting)
    try {
      await promise
    } finally {
      for (const timer of timers) clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      this.#leave(waiting)
    }
  }

  /** There may be room for one more. */
  noteRoom(): void {
    const next = this.#waiting
      .filter(({ isReady }) => isReady)
      .reduce<Waiting | undefined>(
        (first, one) => (first && this.#servedAt(first) <= this.#servedAt(one) ? first : one),
        undefined,
      )
    if (!next) {
      this.#unused = Math.min(this.#unused + 1, this.#runs)
      return
    }
    this.#rooms += 1
    this.#served.set(next.owner, this.#rooms)
    this.#leave(next)
    next.wake()
  }

  #makeReady(waiting: Waiting): void {
    if (waiting.isReady) return
    waiting.isReady = true
    if (this.#unused === 0) return
    this.#unused -= 1
    this.noteRoom()
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
