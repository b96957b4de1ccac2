import { bestEffort } from '../../../kit/best-effort.ts'
import { messageOf } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { Held, RunRow, Store } from '../../../store/store.ts'
import type { Uploads } from '../admit/uploads.ts'
import type { RunDeps } from '../deps.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import { repeat } from '../repeat.ts'
import { DRIVEN } from '../run-view.ts'

/** Maximum number of runs per round. Other processes or the next round take the rest. */
const BATCH = 50

export type TakeoverParts = { readonly active: ActiveRuns; readonly uploads: Uploads }

/**
 * Takes over runs whose process is gone, again and again: each is driven on from where the store has it. Of several
 * processes that see the same run one gets it.
 */
export function watchAbandonedRuns(
  deps: RunDeps,
  parts: TakeoverParts,
  everyMs: number,
): { stop(): Promise<void> } {
  const round = async () => {
    try {
      await parts.uploads.endOverdue()
      await takeOverRuns(deps, parts.active)
    } catch (error) {
      deps.log.warn('runs of other processes could not be looked at', { error: messageOf(error) })
    }
  }
  return repeat(round, everyMs)
}

export async function takeOverRuns(
  { store, holder, log, metrics }: Pick<RunDeps, 'store' | 'holder' | 'log' | 'metrics'>,
  active: { launch(run: RunRow): unknown },
): Promise<void> {
  if (holder.isLost) return
  for (const { id, holder: former } of await store.listAbandonedRuns(DRIVEN, BATCH)) {
    // A run that cannot be taken over, for example because its row is damaged, must not prevent the takeover of the others.
    await bestEffort(log, `take over the run ${id}`, async () => {
      const taken = await take(store, { id, ...present({ holder: former }) }, holder.id)
      if (!taken) return
      log.warn('a run whose process is gone is taken over', { runId: id, state: taken.state })
      metrics?.tookOver()
      active.launch(taken)
    })
  }
}

/** Undefined if another process was faster, or if the run has ended. */
function take(store: Store, { id, holder: former }: Held, holder: string): Promise<RunRow | undefined> {
  return store.transaction(async (tx) => {
    const run = await tx.readRun(id)
    if (!run || run.holder !== former || run.endedAt !== undefined) return undefined
    await tx.changeRun(id, { holder })
    return { ...run, holder }
  })
}
