import { bestEffort } from '../../../kit/best-effort.ts'
import { messageOf } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { endUndriven } from '../drive/end-undriven.ts'
import type { Ending, FinishParts } from '../drive/finish.ts'
import { endingWhenIdle } from '../drive/turn-ending.ts'
import { repeat } from '../repeat.ts'

const EVERY_MS = 1_000
/** How often the end of the retention is looked for, unless the retention is shorter. */
const RETENTION_EVERY_MS = 60_000
const PAGE = 200

/**
 * Watches the deadlines of runs without a driver: approvals that expire, after which the run continues, and the end of
 * the retention. Every process may do this; each deadline takes effect once.
 */
export function watchSuspendedRuns(deps: RunDeps, parts: FinishParts): { stop(): Promise<void> } {
  const retentionRounds = Math.ceil(Math.min(RETENTION_EVERY_MS, deps.limits.suspendedRetentionMs) / EVERY_MS)
  let rounds = 0
  const round = async () => {
    try {
      await expireApprovals(deps, parts)
      if (rounds % retentionRounds === 0) await endForgotten(deps, parts)
      rounds += 1
    } catch (error) {
      deps.log.warn('suspended runs could not be looked at', { error: messageOf(error) })
    }
  }
  return repeat(round, EVERY_MS)
}

/** The run of an expired approval is queued. */
async function expireApprovals({ store, clock, log }: RunDeps, { approvals }: FinishParts): Promise<void> {
  for (const { runId, requestId } of await store.listExpiredApprovals(clock().toISOString())) {
    // A driver expires the approvals of its run by itself.
    if ((await store.readRun(runId))?.state !== 'suspended') continue
    await bestEffort(log, `expire the request ${requestId}`, async () => {
      await approvals.expire(runId, requestId)
    })
  }
}

/** Ends runs that are suspended for longer than the retention, and those whose end was not stored completely. */
async function endForgotten(deps: RunDeps, parts: FinishParts): Promise<void> {
  const { store, clock, limits, log } = deps
  const oldest = new Date(clock().getTime() - limits.suspendedRetentionMs).toISOString()
  const isDue = ({ state, waiting, ending }: RunRow) =>
    state === 'suspended' && (ending !== undefined || (waiting?.since ?? '') < oldest)
  for (let after: string | undefined; ; ) {
    const page = await store.listRuns({ states: ['suspended'], limit: PAGE, ...present({ after }) })
    for (const run of page.items.filter(isDue)) {
      await bestEffort(log, `end the suspended run ${run.id}`, async () => {
        const ending = run.ending ?? (await endingOfForgotten(deps, run))
        await endUndriven(deps, parts, { id: run.id, ending, onlyIf: isDue })
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
  const message = `the run was not continued within ${seconds} s; its last checkpoint is kept`
  return { state: 'failed', code: 'deadline_exceeded', message }
}
