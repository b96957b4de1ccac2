import { type CallDecision, DECISION_LIMITS } from '../../../contracts/decisions.ts'
import type { HostEnvelope } from '../../../contracts/events.ts'
import type { AgentHostClient } from '../../agent-host-client/client.ts'
import { AsyncQueue } from '../../kit/async-queue.ts'
import { delay } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { CommitBatch, Committed } from './commit-batch.ts'

export type RelayOptions = {
  readonly runId: string
  readonly generation: number
  readonly client: AgentHostClient
  readonly commit: CommitBatch
  /** Called after each commit, before its decisions are posted. */
  readonly onCommitted: (committed: Committed) => void
  readonly signal: AbortSignal
  readonly log: Log
}

/** Attempts to re-attach to a stream that broke while nothing came of it. */
const MAX_FRUITLESS_ATTACHES = 5
const REATTACH_DELAY_MS = 50

/**
 * Carries a sandbox's events into the store and the store's decisions back. An event is acknowledged after its
 * commit; a broken stream is re-attached after the last committed one, so nothing is lost and nothing doubled.
 */
export function createRelay(options: RelayOptions) {
  const { client, commit, signal, log } = options
  let committedThrough = 0

  async function post(decisions: readonly CallDecision[]): Promise<void> {
    await client.decide({ ackedThrough: committedThrough, decisions: [...decisions] }, signal)
  }

  async function commitAll(queue: AsyncQueue<HostEnvelope>): Promise<void> {
    let batch: HostEnvelope[] = []
    for await (const envelope of queue) {
      batch.push(envelope)
      if (queue.size > 0 && batch.length < DECISION_LIMITS.ackEveryEvents) continue
      const { runId, generation } = options
      const committed = await commit({ runId, generation, envelopes: batch })
      committedThrough = committed.through
      batch = []
      options.onCommitted(committed)
      await post(committed.decisions)
    }
  }

  /** One attachment: ends when the stream does. */
  async function attach(): Promise<void> {
    const queue = new AsyncQueue<HostEnvelope>()
    const committing = commitAll(queue)
    const pumping = (async () => {
      for await (const envelope of client.events(committedThrough, signal)) queue.push(envelope)
    })().finally(() => queue.end())
    const results = await Promise.allSettled([pumping, committing])
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  return {
    /** Relays until the signal aborts; rejects where the sandbox cannot be followed any longer. */
    async run(): Promise<void> {
      let fruitless = 0
      while (!signal.aborted) {
        const before = committedThrough
        const failure = await attach().then(
          () => new SandboxError('sandbox_lost', "the sandbox's event stream ended"),
          (error: unknown) => error,
        )
        if (signal.aborted) return
        fruitless = committedThrough > before ? 0 : fruitless + 1
        if (fruitless >= MAX_FRUITLESS_ATTACHES) {
          throw new SandboxError('sandbox_lost', `the sandbox cannot be followed: ${messageOf(failure)}`, {
            cause: failure,
          })
        }
        log.warn('the event stream broke; attaching again', { error: failure, after: committedThrough })
        await delay(REATTACH_DELAY_MS * fruitless, signal).catch(() => undefined)
      }
    },
    /** Posts decisions that came from a person, a clock or a policy. */
    post,
  }
}

export type Relay = ReturnType<typeof createRelay>
