import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { ErrorCode } from '../../../../contracts/errors.ts'
import type { HostEnvelope } from '../../../../contracts/events.ts'
import { DECISION_LIMITS } from '../../../../contracts/limits.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { AsyncQueue } from '../../../kit/async-queue.ts'
import { delay } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { Acknowledger } from './acknowledger.ts'
import type { Batch, Committed } from './commit-batch.ts'
import { weightOf } from './event-weight.ts'

export type RelayOptions = {
  readonly runId: string
  readonly generation: number
  readonly client: AgentHostClient
  /** The sandbox's last event that is committed already, and need not be read again. @default 0 */
  readonly after?: number
  /** Nothing is committed before; what the sandbox says until then is one batch. */
  readonly begun?: Promise<void>
  readonly commit: (batch: Batch) => Promise<Committed>
  /** Called after each commit, before its decisions are posted. */
  readonly onCommitted: (committed: Committed) => void
  /** Called after that, if there are decisions. They are sent when it resolves. */
  readonly beforePost?: (relay: Relay, decisions: readonly CallDecision[]) => Promise<void>
  /** While it returns a time, the sandbox keeps every call until then, although it is decided. @default no time */
  readonly heldUntil?: () => string | undefined
  /** Called when the stream of the sandbox broke. */
  readonly onBroken?: () => void
  /** Characters of events that the run may send in all. */
  readonly maxWeight: number
  readonly signal: AbortSignal
  readonly log: Log
}

/** Attempts to re-attach to a stream that broke while nothing came of it. */
const MAX_FRUITLESS_ATTACHES = 5
const REATTACH_DELAY_MS = 50

/**
 * After these errors the relay does not attach again: too many events, another pod at the address, or another driver.
 */
const FINAL: ReadonlySet<ErrorCode> = new Set(['agent_quota_exceeded', 'identity_mismatch', 'conflict'])

/** Events read and not committed; beyond it the stream itself waits. */
const MAX_QUEUED_EVENTS = 1024
/**
 * An honest sandbox keeps no more characters unacknowledged than its outbox takes; of others no more is held: half of
 * it in the queue, half in the batch that is being committed.
 */
const WEIGHING = { of: weightOf, max: DECISION_LIMITS.outboxBytes / 2 }

/**
 * Carries a sandbox's events into the store and the store's decisions back. An event is acknowledged after its
 * commit; a broken stream is re-attached after the last committed one, so nothing is lost and nothing doubled.
 */
export class Relay {
  readonly #options: RelayOptions
  #committedThrough: number
  /** The last event that may be acknowledged. Later events have text that is held back. */
  #ackThrough: number
  /** Decisions that are stored and that the sandbox has not taken yet. */
  readonly #unposted = new Map<string, CallDecision>()
  readonly #acknowledger: Acknowledger
  /** Ends the attachment that there is. */
  #detach: (reason: unknown) => void = () => undefined
  /** What this sandbox has sent in all. */
  #weight = 0

  constructor(options: RelayOptions) {
    this.#options = options
    this.#committedThrough = options.after ?? 0
    this.#ackThrough = this.#committedThrough
    this.#acknowledger = new Acknowledger({
      send: () => this.post([]),
      onFailure: (error) => this.#detach(error),
    })
  }

  /** Relays until the signal aborts; rejects where the sandbox cannot be followed any longer. */
  async run(): Promise<void> {
    const { signal, log, onBroken } = this.#options
    let fruitless = 0
    while (!signal.aborted) {
      const before = this.#committedThrough
      const failure = await this.#attach()
      if (signal.aborted) return
      onBroken?.()
      if (failure instanceof SandboxError && FINAL.has(failure.code)) throw failure
      fruitless = this.#committedThrough > before ? 0 : fruitless + 1
      if (fruitless >= MAX_FRUITLESS_ATTACHES) throw unfollowable(failure)
      log.warn('the event stream broke; attaching again', { error: failure, after: this.#committedThrough })
      await delay(REATTACH_DELAY_MS * fruitless, signal).catch(() => undefined)
    }
  }

  /** Posts decisions with what may be acknowledged so far; those that do not arrive are posted again with the next ones. */
  async post(decisions: readonly CallDecision[], signal = this.#options.signal): Promise<void> {
    this.#acknowledger.clear()
    for (const decision of decisions) this.#unposted.set(decision.callId, decision)
    const sent = [...this.#unposted.values()].map((decision) => this.#orHeld(decision))
    await this.#options.client.decide({ ackedThrough: this.#ackThrough, decisions: sent }, signal)
    for (const decision of sent) {
      if (this.#unposted.get(decision.callId) === decision) this.#unposted.delete(decision.callId)
    }
  }

  /** A held decision stays unposted. It is posted by the first call of `post` after the hold. */
  #orHeld(decision: CallDecision): CallDecision {
    const until = this.#options.heldUntil?.()
    if (until === undefined || decision.outcome === 'pending') return decision
    return { callId: decision.callId, outcome: 'pending', until }
  }

  /** One attachment. Returns why it ended. Reading and committing end together. */
  async #attach(): Promise<unknown> {
    const queue = new AsyncQueue<HostEnvelope>(MAX_QUEUED_EVENTS, WEIGHING)
    const detached = new AbortController()
    this.#detach = (reason) => detached.abort(reason)
    const signal = AbortSignal.any([this.#options.signal, detached.signal])
    const committing = this.#commitAll(queue).finally(() => detached.abort())
    const results = await Promise.allSettled([committing, this.#pump(queue, signal)])
    this.#acknowledger.clear()
    const failed = results.find((result) => result.status === 'rejected')
    return failed?.reason ?? new SandboxError('sandbox_lost', "the sandbox's event stream ended")
  }

  async #pump(queue: AsyncQueue<HostEnvelope>, signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => queue.end(), { once: true })
    try {
      for await (const envelope of this.#options.client.events(this.#committedThrough, signal)) {
        if (signal.aborted) return
        await queue.put(envelope)
      }
    } finally {
      queue.end()
    }
  }

  async #commitAll(queue: AsyncQueue<HostEnvelope>): Promise<void> {
    const { runId, generation, begun, commit, onCommitted } = this.#options
    await begun
    let batch: HostEnvelope[] = []
    let weight = 0
    for await (const envelope of queue) {
      batch.push(envelope)
      const one = weightOf(envelope)
      weight += one
      this.#weigh(one)
      // Events that the sandbox sent together may arrive in several pieces. One commit takes them all.
      if (queue.size === 0) await nextTurn()
      const isFull = batch.length >= DECISION_LIMITS.ackEveryEvents || weight >= WEIGHING.max
      if (queue.size > 0 && !isFull) continue
      const committed = await commit({ runId, generation, envelopes: batch })
      this.#committedThrough = committed.through
      this.#ackThrough = committed.ackThrough
      onCommitted(committed)
      await this.#answer(committed, { events: batch.length, weight })
      batch = []
      weight = 0
    }
  }

  /** Sends the decisions of a batch, or acknowledges it. */
  async #answer(
    { decisions }: Committed,
    { events, weight }: { readonly events: number; readonly weight: number },
  ): Promise<void> {
    if (decisions.length > 0) await this.#options.beforePost?.(this, decisions)
    if (decisions.length + this.#unposted.size > 0) await this.post(decisions)
    else await this.#acknowledger.committed(events, weight)
  }

  /** The store is bounded too: a sandbox that talks without end is ended. */
  #weigh(weight: number): void {
    this.#weight += weight
    const { maxWeight } = this.#options
    if (this.#weight > maxWeight)
      throw new SandboxError(
        'agent_quota_exceeded',
        `the run sent more than ${maxWeight} characters of events`,
      )
  }
}

const unfollowable = (failure: unknown): SandboxError =>
  new SandboxError('sandbox_lost', `the sandbox cannot be followed: ${messageOf(failure)}`, {
    cause: failure,
  })
