import type { HostEnvelope, HostEvent } from '../../contracts/events.ts'
import { SandboxError } from '../kit/errors.ts'

/** What an event belongs to. */
export type EventIds = Pick<HostEnvelope, 'taskId' | 'commandId' | 'callId'>

export type OutboxLimits = { readonly maxEvents: number; readonly maxBytes: number }

type Kept = { readonly envelope: HostEnvelope; readonly bytes: number }

/**
 * Every event of this sandbox, numbered from 1 without gaps, kept until the API has committed it. A full outbox
 * makes `emit` wait, which pauses whoever produces: nothing is ever dropped.
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

  /** Resolves when the event is numbered; events keep the order in which they were emitted. */
  emit(event: HostEvent, ids: EventIds = {}): Promise<void> {
    this.#tail = this.#tail.then(() => this.#append(event, ids))
    return this.#tail
  }

  /** Forgets what the API has committed. */
  acknowledge(through: number): void {
    this.#assertSent(through)
    while (this.#kept[0] && this.#kept[0].envelope.sequence <= through)
      this.#bytes -= this.#kept.shift()?.bytes ?? 0
    this.#forgotten = Math.max(this.#forgotten, through)
    this.#change()
  }

  /** Throws `outbox_overrun` where events after `after` are gone, `invalid_request` where they never were. */
  assertReplayable(after: number): void {
    this.#assertSent(after)
    if (after >= this.#forgotten) return
    const message = `events after ${after} are acknowledged up to ${this.#forgotten} and gone`
    throw new SandboxError('outbox_overrun', message)
  }

  /**
   * Events after `after`, then those that come, until the signal aborts, the outbox closes, or everything
   * through the sequence that `through` answers was seen here or acknowledged elsewhere.
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
