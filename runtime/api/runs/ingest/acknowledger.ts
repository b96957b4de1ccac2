import { DECISION_LIMITS } from '../../../../contracts/limits.ts'

/** Long before the outbox of a sandbox is full, whose limit is in bytes: a character has up to four. */
const MAX_CHARACTERS = DECISION_LIMITS.outboxBytes / 16

type Acknowledging = {
  /** Tells the sandbox what is committed. */
  readonly send: () => Promise<void>
  /** Called where that failed and nobody waited for it. */
  readonly onFailure: (error: unknown) => void
}

/**
 * Acknowledges what is committed in time, and not at once: the sandbox needs it only so that it may forget, and each
 * acknowledgement is a request beside those that somebody waits for.
 */
export class Acknowledger {
  readonly #options: Acknowledging
  #events = 0
  #characters = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: Acknowledging) {
    this.#options = options
  }

  /** So much more is committed. Waits where it is so much that the sandbox has to know. */
  async committed(events: number, characters: number): Promise<void> {
    this.#events += events
    this.#characters += characters
    if (this.#events >= DECISION_LIMITS.ackEveryEvents || this.#characters >= MAX_CHARACTERS)
      return this.#options.send()
    this.#timer ??= setTimeout(() => {
      this.#options.send().catch(this.#options.onFailure)
    }, DECISION_LIMITS.ackEveryMs)
  }

  /** All that is committed is being acknowledged, or nobody is there to be told. */
  clear(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#events = 0
    this.#characters = 0
  }
}
