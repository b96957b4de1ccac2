import type { RunEnvelope, RunEvent } from '../../../contracts/events.ts'
import type { ApprovalRow, RunRow } from '../../store/store.ts'
import { KnownRuns } from './known-runs.ts'
import type { ProcessMetrics } from './process-metrics.ts'

/** A change of a run in a committed transaction. */
export type Fact =
  | {
      readonly kind: 'event'
      readonly runId: string
      readonly envelope: RunEnvelope
      /** As the transaction has read it, if it did. */
      readonly run: RunRow | undefined
    }
  | { readonly kind: 'requested'; readonly runId: string }
  | { readonly kind: 'decision'; readonly approval: ApprovalRow; readonly state: ApprovalRow['state'] }

/** The launch and the turn of a run that this process drives. Times are of the monotonic clock. */
type UnderWay = { requestedAt?: number; launch?: 'warm' | 'cold'; turnAt?: number }

/**
 * Measures runs by their committed events. A launch or a turn that another replica began is not measured, because its
 * beginning is not known here.
 */
export class RunFacts {
  readonly #metrics: ProcessMetrics
  readonly #runs = new KnownRuns<UnderWay>(() => ({}))

  constructor(metrics: ProcessMetrics) {
    this.#metrics = metrics
  }

  note(fact: Fact): void {
    if (fact.kind === 'event') this.#onEvent(fact.runId, fact.envelope.event)
    else if (fact.kind === 'requested') this.#runs.of(fact.runId).requestedAt = performance.now()
    else this.#onDecision(fact.approval, fact.state)
  }

  #onEvent(runId: string, event: RunEvent): void {
    switch (event.type) {
      case 'sandbox.execution_pod.bound':
        this.#runs.of(runId).launch = event.data.launch
        this.#metrics.binds.observe({ launch: event.data.launch }, event.data.bindMs / 1_000)
        break
      case 'run.started':
      case 'run.resumed':
        this.#onLaunched(runId)
        break
      case 'turn.started':
        this.#runs.of(runId).turnAt = performance.now()
        break
      case 'turn.ended':
        this.#onTurnEnded(runId, event.data.state)
        break
      case 'subtask.pending_capacity':
        this.#runs.delete(runId)
        this.#metrics.retried('launch')
        break
      case 'run.interrupted':
        this.#runs.delete(runId)
        this.#metrics.retried('run')
        break
      case 'run.failed':
        this.#metrics.runFailed(event.data.code)
        break
      case 'run.suspended':
      case 'done':
        this.#runs.delete(runId)
        break
    }
  }

  #onTurnEnded(runId: string, state: string): void {
    const run = this.#runs.get(runId)
    if (run?.turnAt === undefined) return
    this.#metrics.turns.observe({ state }, secondsSince(run.turnAt))
    delete run.turnAt
  }

  #onLaunched(runId: string): void {
    const run = this.#runs.get(runId)
    if (run?.requestedAt === undefined || run.launch === undefined) return
    this.#metrics.launches.observe({ launch: run.launch }, secondsSince(run.requestedAt))
    delete run.requestedAt
  }

  #onDecision({ kind, createdAt }: ApprovalRow, decision: ApprovalRow['state']): void {
    const seconds = Math.max(0, Date.now() - Date.parse(createdAt)) / 1_000
    this.#metrics.approvalWaits.observe({ kind, decision }, seconds)
  }
}

const secondsSince = (at: number): number => (performance.now() - at) / 1_000
