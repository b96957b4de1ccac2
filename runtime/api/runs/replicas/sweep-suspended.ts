import { messageOf } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import { type FinishParts, finishRun } from '../drive/finish.ts'
import { repeat } from '../repeat.ts'

const EVERY_MS = 1_000
const PAGE = 200

type Parts = FinishParts & { readonly active: ActiveRuns }

/**
 * Watches the deadlines of runs that nobody drives: approvals that expire, after which the run continues, and the end of
 * the retention. Every process may do this; each deadline takes effect once.
 */
export function watchSuspendedRuns(deps: RunDeps, parts: Parts): { stop(): Promise<void> } {
  const round = async () => {
    try {
      await expireApprovals(deps, parts)
      await endForgotten(deps, parts)
    } catch (error) {
      deps.log.warn('suspended runs could not be looked at', { error: messageOf(error) })
    }
  }
  return repeat(round, EVERY_MS)
}

async function expireApprovals(
  { store, clock, holder }: RunDeps,
  { approvals, active }: Parts,
): Promise<void> {
  for (const { runId, requestId } of await store.listExpiredApprovals(clock().toISOString())) {
    // A driver expires the approvals of its run by itself.
    if ((await store.readRun(runId))?.state !== 'suspended') continue
    await approvals.expire(runId, requestId)
    const run = await store.readRun(runId)
    if (run?.state === 'queued' && run.holder === holder.id) active.launch(run)
  }
}

/** Ends runs that are suspended for longer than the retention. */
async function endForgotten(deps: RunDeps, parts: Parts): Promise<void> {
  const { store, clock, limits } = deps
  const oldest = new Date(clock().getTime() - limits.suspendedRetentionMs).toISOString()
  const isForgotten = ({ state, waiting }: RunRow) => state === 'suspended' && (waiting?.since ?? '') < oldest
  const { items } = await store.listRuns({ states: ['suspended'], createdBefore: oldest, limit: PAGE })
  for (const run of items.filter(isForgotten)) {
    const days = Math.round(limits.suspendedRetentionMs / 86_400_000)
    const message = `nobody continued the run within ${days} days; its last checkpoint is kept`
    const events = await deps.folders?.conclude(run)
    const ending = { state: 'failed', code: 'deadline_exceeded', message } as const
    await finishRun(deps, parts, { runId: run.id, ending, ...(events && { events }), onlyIf: isForgotten })
  }
}
