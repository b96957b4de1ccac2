import type { HostEnvelope, HostEvent } from '../../../../contracts/events.ts'
import { DECISION_LIMITS } from '../../../../contracts/limits.ts'
import { weightOf } from './event-weight.ts'

/** What redacts the events of one sandbox, text in pieces as one stream. */
export interface RunRedactor {
  redact(event: HostEvent): HostEvent[]
  /** Whether some text has not come out yet. */
  readonly isHolding: boolean
  copy(): RunRedactor
}

/** A sandbox keeps what is to be read again; beyond this, text that is held back no longer counts for it. */
const MOST = { events: DECISION_LIMITS.ackEveryEvents, characters: DECISION_LIMITS.outboxBytes / 16 }

/**
 * The redaction of a sandbox's events, and from where it has to be begun anew by somebody who is to know what it
 * knows. It goes forward with a commit: what a transaction does is done to a copy.
 */
export class RedactedEvents {
  readonly #redactor: RunRedactor
  #settledThrough: number
  #events = 0
  #characters = 0

  constructor(redactor: RunRedactor, settledThrough: number) {
    this.#redactor = redactor
    this.#settledThrough = settledThrough
  }

  /** All text of the events up to this sequence has come out, or is too long ago to be read again. */
  get settledThrough(): number {
    return this.#settledThrough
  }

  redact({ sequence, event }: HostEnvelope): HostEvent[] {
    const redacted = this.#redactor.redact(event)
    if (this.#redactor.isHolding && this.#hasRoomFor(event)) return redacted
    this.#settledThrough = sequence
    this.#events = 0
    this.#characters = 0
    return redacted
  }

  copy(): RedactedEvents {
    const copy = new RedactedEvents(this.#redactor.copy(), this.#settledThrough)
    copy.#events = this.#events
    copy.#characters = this.#characters
    return copy
  }

  /** Counts one more event that is to be read again. */
  #hasRoomFor(event: HostEvent): boolean {
    this.#events += 1
    this.#characters += weightOf(event)
    return this.#events <= MOST.events && this.#characters <= MOST.characters
  }
}
