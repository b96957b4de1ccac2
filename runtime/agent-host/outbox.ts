import type { HostEnvelope, HostEvent } from '../../contracts/events.ts'
import { SandboxError } from '../kit/errors.ts'

export type EventIds = Pick<HostEnvelope, 'taskId' | 'commandId' | 'callId'>

export type OutboxLimits = { readonly maxEvents: number; readonly maxBytes: number }

type Kept = { readonly envelope: HostEnvelope; readonly bytes: number }

/**
 * Keeps every event of this sandbox, numbered from 1 without gaps, until the API has committed it. When the outbox is
 * full, `emit` waits and so slows down the producer. No event is ever dropped.
 */
export class Outbox {
  readonly #limits: OutboxLimits
  readonly #clock: () => Date
  readonly #kept: Kept[] = []
  #bytes = 0
  #last = 0
  #forgotten = 0
  #closed = false
  #tail: Promise<void> = Promise.resolve()
  #changed = Promise.withResolvers<void>()

  constructor(limits: OutboxLimits, clock: () => Date = () => new Date()) {
    this.#limits = limits
    this.#clock = clock
  }

  get lastSequence(): number {
    return this.#last
  }

  /** Resolves when the event has its sequence number. Events keep the order of the calls. */
  emit(event: HostEvent, ids: EventIds = {}): Promise<void> {
    this.#tail = this.#tail.then(() => this.#append(event, ids))
    return this.#tail
  }

  /** Deletes the events that the API has committed, up to and including `through`. */
  acknowledge(through: number): void {
    this.#assertSent(through)
    while (this.#kept[0] && this.#kept[0].envelope.sequence <= through)
      this.#bytes -= this.#kept.shift()?.bytes ?? 0
    this.#forgotten = Math.max(this.#forgotten, through)
    this.#change()
  }

  /** Throws `outbox_overrun` if events after `after` are deleted, `invalid_request` if `after` was never sent. */
  assertReplayable(after: number): void {
    this.#assertSent(after)
    if (after >= this.#forgotten) return
    const message = `events after ${after} cannot be replayed: they are acknowledged up to ${this.#forgotten} and deleted`
    throw new SandboxError('outbox_overrun', message)
  }

  /**
   * Yields the events after `after`, then new ones. Ends when the signal aborts, when the outbox closes, or when every
   * event up to the sequence returned by `through` was yielded or acknowledged.
   */
  async *follow(
    after: number,
    signal: AbortSignal,
    through: () => number = () => Number.POSITIVE_INFINITY,
  ): AsyncGenerator<HostEnvelope> {
    let at = after
    signal.addEventListener('abort', () => this.#change(), { once: true })
    while (!signal.aborted) {
      const next = this.#nextAfter(at)
      if (next) {
        at = next.sequence
        yield next
      } else if (this.#closed || Math.max(at, this.#forgotten) >= through()) {
        return
      } else {
        await this.#changed.promise
      }
    }
  }

  close(): void {
    this.#closed = true
    this.#change()
  }

  async #append(event: HostEvent, ids: EventIds): Promise<void> {
    while (this.#isFull && !this.#closed) await this.#changed.promise
    if (this.#closed) return
    const envelope: HostEnvelope = {
      sequence: this.#last + 1,
      at: this.#clock().toISOString(),
      ...ids,
      event,
    }
    const bytes = JSON.stringify(envelope).length
    this.#last += 1
    this.#bytes += bytes
    this.#kept.push({ envelope, bytes })
    this.#change()
  }

  get #isFull(): boolean {
    return this.#kept.length >= this.#limits.maxEvents || this.#bytes >= this.#limits.maxBytes
  }

  #nextAfter(at: number): HostEnvelope | undefined {
    const first = this.#kept[0]?.envelope.sequence ?? this.#last + 1
    return this.#kept[Math.max(at + 1 - first, 0)]?.envelope
  }

  #assertSent(sequence: number): void {
    if (sequence <= this.#last) return
    throw new SandboxError('invalid_request', `event ${sequence} was never sent, the last is ${this.#last}`)
  }

  #change(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }
}
