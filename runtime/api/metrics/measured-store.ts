import type { RunEnvelope } from '../../../contracts/events.ts'
import type { ApprovalRow, Store, Transaction } from '../../store/store.ts'
import type { ProcessMetrics } from './process-metrics.ts'
import { type Fact, RunFacts } from './run-facts.ts'

/**
 * The store, whose transactions are measured. The events of committed transactions are counted here as well. An event
 * that was rolled back is not counted.
 */
export function measuredStore(store: Store, metrics: ProcessMetrics): Store {
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
        for (const fact of seen) facts.note(fact)
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
  const noteEvents = (runId: string, events: readonly RunEnvelope[]) => {
    for (const { event } of events) seen.push({ kind: 'event', runId, event })
  }
  return {
    ...tx,
    async appendEvents(runId, events) {
      const appended = await tx.appendEvents(runId, events)
      noteEvents(runId, appended)
      return appended
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
