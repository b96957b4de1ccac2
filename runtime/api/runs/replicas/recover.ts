import { bestEffort } from '../../../kit/best-effort.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import { isStoreFault } from '../../../store/store-fault.ts'
import type { Uploads } from '../admit/uploads.ts'
import type { RunDeps } from '../deps.ts'
import { type FinishParts, finishRun } from '../drive/finish.ts'
import { endingAfterLoss, requeueLost } from '../drive/requeue.ts'
import { concludeResults } from '../results/conclude-results.ts'
import { UNFINISHED, WAITING_FOR_PLACE } from '../run-view.ts'

type Parts = FinishParts & { readonly uploads: Uploads }

const RESTARTED = {
  code: 'api_restarted',
  message: 'the service was restarted while the run was active',
} as const

/**
 * Takes up what an earlier process left. Its sandboxes are cleaned up; its runs continue from their last checkpoint, or
 * end with a reason. Every event that a client saw is in the store already.
 */
export async function recoverRuns(deps: RunDeps, parts: Parts): Promise<void> {
  const { store, provider, log } = deps
  for (const claim of await store.listClaims(['requested', 'bound'])) {
    await bestEffort(log, `collect the sandbox of claim ${claim.name}`, async () => {
      if (claim.handle !== undefined) await provider.collect(claim.handle)
      await store.transaction((tx) => tx.changeClaim(claim, { state: 'released' }))
    })
  }
  for (let after: string | undefined; ; ) {
    const page = await store.listRuns({ states: UNFINISHED, limit: 200, ...present({ after }) })
    for (const run of page.items)
      await recoverRun(deps, parts, run).catch((error: unknown) => {
        // Without its store the service does not start. Any other error concerns this run alone.
        if (isStoreFault(error)) throw error
        log.error('a run of an earlier process cannot be taken up', { runId: run.id, error })
      })
    if (page.next === undefined) break
    after = page.next
  }
  await bestEffort(log, 'remove folders of runs that ended', async () => deps.folders?.sweep())
}

async function recoverRun(deps: RunDeps, parts: Parts, found: RunRow): Promise<void> {
  const { store, log, holder } = deps
  // The next service that was not started for one command continues the run.
  if (deps.isTemporary && !found.endsWithService) return
  if (found.ending === undefined && !found.endsWithService && waitsOn(parts, found)) return
  await store.transaction((tx) => tx.changeRun(found.id, { holder: holder.id }))
  const run = { ...found, holder: holder.id }
  const state = await requeueLost(deps, parts, { run, loss: RESTARTED })
  log.warn('a run of an earlier process is taken up', { runId: run.id, state: state ?? 'ended' })
  if (state === undefined) await end(deps, parts, run)
}

/** A run that waits for its upload or in the queue keeps waiting. Returns false for every other run. */
function waitsOn({ uploads }: Parts, run: RunRow): boolean {
  if (run.state === 'waiting_upload') uploads.expect(run)
  return WAITING_FOR_PLACE.some((state) => state === run.state)
}

/** An end that was already decided stays in force, even if the process died before it could store it. */
async function end(deps: RunDeps, parts: Parts, run: RunRow): Promise<void> {
  const ending = run.ending ?? (await endingAfterLoss(deps, run, { state: 'failed', ...RESTARTED }))
  const events = await concludeResults(deps, run)
  const released = run.sandbox ? { released: RESTARTED.code } : {}
  await finishRun(deps, parts, { runId: run.id, ...present({ events }), ending, ...released })
}
