import type { RunEnvelope } from '../../../../contracts/events.ts'

/**
 * The events that were committed while a reader follows a run. Returns only the next events in sequence. After a gap, a
 * commit of another process, or for a slow reader, the store must be read.
 */
export class EventTail {
  readonly #limit: number
  #waiting: RunEnvelope[] = []
  /** Earlier commits are unknown. */
  #mustRead = true
  #changed = Promise.withResolvers<void>()

  constructor(limit: number) {
    this.#limit = limit
  }

  offer(committed?: readonly RunEnvelope[]): void {
    if (committed === undefined || this.#waiting.length + committed.length > this.#limit) this.#forget()
    else if (!this.#mustRead) this.#waiting.push(...committed)
    this.#changed.resolve()
  }

  /** The events after sequence `after`. Empty if there are none, `undefined` if the store must be read. */
  take(after: number): RunEnvelope[] | undefined {
    if (this.#mustRead) return undefined
    const news = this.#waiting.filter(({ sequence }) => sequence > after)
    this.#waiting = []
    if (news.every(({ sequence }, index) => sequence === after + 1 + index)) return news
    this.#forget()
    return undefined
  }

  /** Call it before reading the store to its end: later commits are then collected. */
  startOver(): void {
    this.#mustRead = false
    this.#waiting = []
  }

  /** Resolves at once where something was offered since the last call. */
  async changed(): Promise<void> {
    await this.#changed.promise
    this.#changed = Promise.withResolvers<void>()
  }

  wake(): void {
    this.#changed.resolve()
  }

  #forget(): void {
    this.#mustRead = true
    this.#waiting = []
  }
}
