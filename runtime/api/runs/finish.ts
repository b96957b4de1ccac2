import type { ErrorCode } from '../../../contracts/errors.ts'
import type { RunEvent } from '../../../contracts/events.ts'
import type { RunRow, Transaction } from '../../store/store.ts'
import type { Approvals } from './approvals.ts'
import type { AuditTrail } from './audit-trail.ts'
import type { RunDeps } from './deps.ts'

/** How a run ends; the first reason stands. */
export type Ending =
  | { readonly state: 'succeeded'; readonly summary?: string }
  | { readonly state: 'failed'; readonly code: ErrorCode; readonly message: string }
  | { readonly state: 'outcome-failed'; readonly summary?: string }
  | { readonly state: 'cancelled'; readonly by: string }

export type FinishParts = { readonly audit: AuditTrail; readonly approvals: Approvals }

function endEvent(ending: Ending): RunEvent {
  switch (ending.state) {
    case 'cancelled':
      return { type: 'run.cancelled', data: { by: ending.by } }
    case 'failed':
      return { type: 'run.failed', data: { code: ending.code, message: ending.message } }
    default: {
      const outcome = ending.state === 'succeeded' ? 'succeeded' : 'failed'
      return {
        type: 'run.outcome',
        data: { outcome, ...(ending.summary !== undefined && { summary: ending.summary }) },
      }
    }
  }
}

/** A call that was released and never answered did run, for all anybody knows: it is closed, never released again. */
async function closeCalls(
  tx: Transaction,
  run: RunRow,
  { audit, at }: { audit: AuditTrail; at: string },
): Promise<void> {
  const open = await tx.listCalls(run.id, ['open', 'released'])
  for (const call of open) await tx.changeCall(run.id, call.callId, { state: 'ended' })
  await audit.append(
    tx,
    run.id,
    open.map((call) => ({
      kind: 'outcome' as const,
      runId: run.id,
      callId: call.callId,
      actor: `agent:${run.agent.kind}`,
      tool: call.tool,
      policyVersion: run.policyVersion,
      outcome: call.state === 'open' ? 'not released' : 'unknown (sandbox_lost)',
      at,
    })),
  )
}

/**
 * Ends a run in one transaction: approvals superseded, calls closed, the last events, the audit chain sealed,
 * the state final. A run that is final already is left as it is.
 */
export async function finishRun(
  deps: RunDeps,
  parts: FinishParts,
  end: { runId: string; ending: Ending; released?: string },
) {
  const { runId, ending } = end
  const at = deps.clock().toISOString()
  await deps.store.transaction(async (tx) => {
    const run = await tx.readRun(runId)
    if (!run || run.endedAt !== undefined) return
    await parts.approvals.supersedeAll(tx, runId, 'the run ended')
    await closeCalls(tx, run, { audit: parts.audit, at })
    await parts.audit.seal(tx, runId, at)
    const state = ending.state === 'outcome-failed' ? 'failed' : ending.state
    const events: RunEvent[] = [
      endEvent(ending),
      ...(end.released === undefined
        ? []
        : [{ type: 'sandbox.execution_pod.released', data: { reason: end.released } } as const]),
      { type: 'done', data: { state } },
    ]
    await tx.appendEvents(
      runId,
      events.map((event) => ({ event })),
    )
    await tx.changeRun(runId, {
      state,
      endedAt: at,
      ...(ending.state === 'failed' && { failure: { code: ending.code, message: ending.message } }),
      ...((ending.state === 'succeeded' || ending.state === 'outcome-failed') && {
        outcome: {
          outcome: ending.state === 'succeeded' ? 'succeeded' : 'failed',
          ...(ending.summary !== undefined && { summary: ending.summary }),
        },
      }),
    })
  })
}
