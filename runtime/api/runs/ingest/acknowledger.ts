import { DECISION_LIMITS } from '../../../../contracts/limits.ts'

/** Long before the outbox of a sandbox is full, whose limit is in bytes: a character has up to four. */
const MAX_CHARACTERS = DECISION_LIMITS.outboxBytes / 16

type Acknowledging = {
  /** Sends the acknowledgement to the sandbox. */
  readonly send: () => Promise<void>
  /** Called if an acknowledgement that no caller awaits fails. */
  readonly onFailure: (error: unknown) => void
}

/**
 * Acknowledges committed events with a delay. The sandbox needs acknowledgements only to free memory, and each of them
 * is an additional request.
 */
export class Acknowledger {
  readonly #options: Acknowledging
  #events = 0
  #characters = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: Acknowledging) {
    this.#options = options
  }

  /** Counts committed events. Waits for an acknowledgement if so many are open that the sandbox needs one. */
  async committed(events: number, characters: number): Promise<void> {
    this.#events += events
    this.#characters += characters
    if (this.#events >= DECISION_LIMITS.ackEveryEvents || this.#characters >= MAX_CHARACTERS)
      return this.#options.send()
    this.#timer ??= setTimeout(() => {
      this.#options.send().catch(this.#options.onFailure)
    }, DECISION_LIMITS.ackEveryMs)
  }

  /** Forgets the open acknowledgement, because one is being sent or there is no connection. */
  clear(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#events = 0
    this.#characters = 0
  }
}
