import { bestEffort } from '../../../kit/best-effort.ts'
import { messageOf } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import { endSuspended } from '../drive/end-suspended.ts'
import type { Ending, FinishParts } from '../drive/finish.ts'
import { endingWhenIdle } from '../drive/turn-ending.ts'
import { repeat } from '../repeat.ts'

const EVERY_MS = 1_000
/** How often the end of the retention is looked for, unless the retention is shorter. */
const RETENTION_EVERY_MS = 60_000
const PAGE = 200

type Parts = FinishParts & { readonly active: ActiveRuns }

/**
 * Watches the deadlines of runs that nobody drives: approvals that expire, after which the run continues, and the end of
 * the retention. Every process may do this; each deadline takes effect once.
 */
export function watchSuspendedRuns(deps: RunDeps, parts: Parts): { stop(): Promise<void> } {
  const retentionRounds = Math.ceil(Math.min(RETENTION_EVERY_MS, deps.limits.suspendedRetentionMs) / EVERY_MS)
  let rounds = 0
  const round = async () => {
    try {
      await expireApprovals(deps, parts)
      await launchOwn(deps, parts)
      if (rounds % retentionRounds === 0) await endForgotten(deps, parts)
      rounds += 1
    } catch (error) {
      deps.log.warn('suspended runs could not be looked at', { error: messageOf(error) })
    }
  }
  return repeat(round, EVERY_MS)
}

/** The run of an expired approval is queued, and launched by this process. */
async function expireApprovals({ store, clock, log }: RunDeps, { approvals }: Parts): Promise<void> {
  for (const { runId, requestId } of await store.listExpiredApprovals(clock().toISOString())) {
    // A driver expires the approvals of its run by itself.
    if ((await store.readRun(runId))?.state !== 'suspended') continue
    await bestEffort(log, `expire the request ${requestId}`, async () => {
      await approvals.expire(runId, requestId)
    })
  }
}

/** Ends runs that are suspended for longer than the retention, and those whose end was not stored completely. */
async function endForgotten(deps: RunDeps, parts: Parts): Promise<void> {
  const { store, clock, limits, log } = deps
  const oldest = new Date(clock().getTime() - limits.suspendedRetentionMs).toISOString()
  const isDue = ({ waiting, ending }: RunRow) => ending !== undefined || (waiting?.since ?? '') < oldest
  for (let after: string | undefined; ; ) {
    const page = await store.listRuns({ states: ['suspended'], limit: PAGE, ...present({ after }) })
    for (const run of page.items.filter(isDue)) {
      await bestEffort(log, `end the suspended run ${run.id}`, async () => {
        const ending = run.ending ?? (await endingOfForgotten(deps, run))
        await endSuspended(deps, parts, { id: run.id, ending, onlyIf: isDue })
      })
    }
    if (page.next === undefined) return
    after = page.next
  }
}

/** A run that only waits for another turn ends as its last turn did. */
async function endingOfForgotten(deps: RunDeps, run: RunRow): Promise<Ending> {
  if (run.waiting?.for === 'turn') return endingWhenIdle(deps, run)
  const seconds = deps.limits.suspendedRetentionMs / 1000
  const message = `nobody continued the run within ${seconds} s; its last checkpoint is kept`
  return { state: 'failed', code: 'deadline_exceeded', message }
}

/** A run that this process queued is driven by it, whatever happened to the request that queued it. */
async function launchOwn({ store, holder }: RunDeps, { active }: Parts): Promise<void> {
  const { items } = await store.listRuns({ states: ['queued'], limit: PAGE })
  // A run that never had a sandbox is launched by the request that started it.
  const own = items.filter((run) => run.holder === holder.id && run.generation > 0 && !active.get(run.id))
  for (const run of own) active.launch(run)
}
