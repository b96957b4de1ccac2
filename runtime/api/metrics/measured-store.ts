import type { RunEnvelope } from '../../../contracts/events.ts'
import type { ApprovalRow, RunRow, Store, Transaction } from '../../store/store.ts'
import type { Tracing } from '../tracing/tracing.ts'
import type { ProcessMetrics } from './process-metrics.ts'
import { type Fact, RunFacts } from './run-facts.ts'

/**
 * The store, whose transactions are measured. The events of committed transactions are counted here as well. An event
 * that was rolled back is not counted.
 */
export function measuredStore(store: Store, metrics: ProcessMetrics, tracing?: Pick<Tracing, 'note'>): Store {
  const facts = new RunFacts(metrics)
  return {
    ...store,
    async transaction(work) {
      const stop = metrics.commits.startTimer()
      const seen: Fact[] = []
      try {
        const result = await store.transaction((tx) => {
          // The engine may run the work of a transaction again.
          seen.length = 0
          return work(observed(tx, seen))
        })
        stop({ result: 'committed' })
        for (const fact of seen) {
          facts.note(fact)
          if (tracing && fact.kind === 'event' && fact.run)
            tracing.note({ run: fact.run, envelope: fact.envelope })
        }
        return result
      } catch (error) {
        stop({ result: 'rolled_back' })
        throw error
      }
    },
  }
}

function observed(tx: Transaction, seen: Fact[]): Transaction {
  // Read by the transaction itself before it decides, so that no further query is needed.
  const approvals = new Map<string, ApprovalRow>()
  const remember = (row: ApprovalRow) => approvals.set(row.requestId, row)
  const runs = new Map<string, RunRow>()
  const noteEvents = (runId: string, events: readonly RunEnvelope[]) => {
    const run = runs.get(runId)
    for (const envelope of events) seen.push({ kind: 'event', runId, envelope, run })
  }
  return {
    ...tx,
    async appendEvents(runId, events) {
      const appended = await tx.appendEvents(runId, events)
      noteEvents(runId, appended)
      return appended
    },
    async readRun(id) {
      const run = await tx.readRun(id)
      if (run) runs.set(id, run)
      return run
    },
    async upsertClaim(claim) {
      await tx.upsertClaim(claim)
      if (claim.state === 'requested') seen.push({ kind: 'requested', runId: claim.runId })
    },
    async readApproval(runId, requestId) {
      const row = await tx.readApproval(runId, requestId)
      if (row) remember(row)
      return row
    },
    async listApprovals(runId, filter) {
      const rows = await tx.listApprovals(runId, filter)
      for (const row of rows) remember(row)
      return rows
    },
    async decideApproval(requestId, change) {
      const isDecided = await tx.decideApproval(requestId, change)
      const approval = approvals.get(requestId)
      if (isDecided && approval) seen.push({ kind: 'decision', approval, state: change.state })
      return isDecided
    },
  }
}
