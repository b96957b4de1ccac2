import type { RunEnvelope } from '../../../../contracts/events.ts'

/**
 * What was committed while a reader follows a run. It hands on only what comes next in the run's numbers; whatever
 * else happens (a gap, another process's commit, a reader that is too slow) means that the store has to be read.
 */
export class EventTail {
  readonly #limit: number
  #waiting: RunEnvelope[] = []
  /** Nothing is known of what was committed before. */
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

  /** The events that follow number `after`: none where there are none, `undefined` where the store has to be read. */
  take(after: number): RunEnvelope[] | undefined {
    if (this.#mustRead) return undefined
    const news = this.#waiting.filter(({ sequence }) => sequence > after)
    this.#waiting = []
    if (news.every(({ sequence }, index) => sequence === after + 1 + index)) return news
    this.#forget()
    return undefined
  }

  /** To be called before the store is read to its end: what is committed from here on is offered. */
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
