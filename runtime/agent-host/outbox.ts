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
export function createOutbox(limits: OutboxLimits, clock: () => Date = () => new Date()) {
  const kept: Kept[] = []
  let bytes = 0
  let last = 0
  let forgotten = 0
  let closed = false
  let tail: Promise<void> = Promise.resolve()
  const waiters = new Set<() => void>()

  const wakeAll = () => {
    for (const wake of waiters) wake()
    waiters.clear()
  }
  const change = () => new Promise<void>((resolve) => waiters.add(resolve))
  const isFull = () => kept.length >= limits.maxEvents || bytes >= limits.maxBytes

  async function append(event: HostEvent, ids: EventIds): Promise<void> {
    while (isFull() && !closed) await change()
    if (closed) return
    const envelope: HostEnvelope = { sequence: last + 1, at: clock().toISOString(), ...ids, event }
    const size = JSON.stringify(envelope).length
    last += 1
    bytes += size
    kept.push({ envelope, bytes: size })
    wakeAll()
  }

  return {
    get lastSequence() {
      return last
    },

    /** Resolves when the event is numbered; events keep the order in which they were emitted. */
    emit(event: HostEvent, ids: EventIds = {}): Promise<void> {
      tail = tail.then(() => append(event, ids))
      return tail
    },

    /** Forgets what the API has committed. */
    acknowledge(through: number): void {
      if (through > last)
        throw new SandboxError('invalid_request', `event ${through} was never sent, the last is ${last}`)
      while (kept[0] && kept[0].envelope.sequence <= through) bytes -= kept.shift()?.bytes ?? 0
      forgotten = Math.max(forgotten, through)
      wakeAll()
    },

    /** Throws `outbox_overrun` where events after `after` are gone, `invalid_request` where they never were. */
    assertReplayable(after: number): void {
      if (after > last)
        throw new SandboxError('invalid_request', `event ${after} was never sent, the last is ${last}`)
      if (after < forgotten) {
        throw new SandboxError(
          'outbox_overrun',
          `events after ${after} are acknowledged up to ${forgotten} and gone`,
        )
      }
    },

    /**
     * Events after `after`, then those that come, until the signal aborts, the outbox closes, or everything
     * through the sequence that `through` answers was seen here or acknowledged elsewhere.
     */
    async *follow(
      after: number,
      signal: AbortSignal,
      through: () => number | undefined = () => undefined,
    ): AsyncGenerator<HostEnvelope> {
      let at = after
      signal.addEventListener('abort', wakeAll, { once: true })
      while (!signal.aborted) {
        const first = kept[0]?.envelope.sequence ?? last + 1
        const next = kept[Math.max(at + 1 - first, 0)]
        if (next) {
          at = next.envelope.sequence
          yield next.envelope
        } else if (closed || Math.max(at, forgotten) >= (through() ?? Number.POSITIVE_INFINITY)) {
          return
        } else {
          await change()
        }
      }
    },

    close(): void {
      closed = true
      wakeAll()
    },
  }
}

export type Outbox = ReturnType<typeof createOutbox>
