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

/** A sandbox keeps events that must be read again. Text that is held back beyond this limit is not kept for that. */
const MOST = { events: DECISION_LIMITS.ackEveryEvents, characters: DECISION_LIMITS.outboxBytes / 16 }

/**
 * The redaction of a sandbox's events, and the event from which a new driver must read again to have the same state. A
 * transaction works on a copy, which replaces the original after the commit.
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
