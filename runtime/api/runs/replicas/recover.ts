import { bestEffort } from '../../../kit/best-effort.ts'
import { present } from '../../../kit/present.ts'
import type { RunDeps } from '../deps.ts'
import { type FinishParts, finishRun } from '../drive/finish.ts'
import { UNFINISHED } from '../run-view.ts'

/**
 * Takes up what an earlier process left: its sandboxes are cleaned up, its runs end with a reason. Every event
 * that a client saw is in the store already.
 */
export async function recoverRuns(deps: RunDeps, parts: FinishParts): Promise<void> {
  const { store, provider, log } = deps
  for (const claim of await store.listClaims(['requested', 'bound'])) {
    await bestEffort(log, `collect the sandbox of claim ${claim.name}`, async () => {
      if (claim.handle !== undefined) await provider.collect(claim.handle)
      await store.transaction((tx) => tx.changeClaim(claim, { state: 'released' }))
    })
  }
  for (let after: string | undefined; ; ) {
    const page = await store.listRuns({
      states: UNFINISHED,
      limit: 200,
      ...(after !== undefined && { after }),
    })
    for (const run of page.items) {
      log.warn('a run of an earlier process ends', { runId: run.id, state: run.state })
      const message = 'the service was restarted while the run was active'
      const released = run.sandbox ? { released: 'api_restarted' } : {}
      const events = await deps.folders?.conclude(run)
      await finishRun(deps, parts, {
        runId: run.id,
        ...present({ events }),
        ending: { state: 'failed', code: 'api_restarted', message },
        ...released,
      })
    }
    if (page.next === undefined) break
    after = page.next
  }
  await bestEffort(log, 'remove folders of runs that ended', async () => deps.folders?.sweep())
}
