import { messageOf } from '../../../kit/errors.ts'
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

export async function takeOverRuns({ store, holder, log }: RunDeps, active: ActiveRuns): Promise<void> {
  for (const { id, holder: former } of await store.listAbandonedRuns(DRIVEN, BATCH)) {
    const taken = await store.transaction(async (tx) => {
      const run = await tx.readRun(id)
      // Another process was faster, or the run has ended.
      if (!run || run.holder !== former || run.endedAt !== undefined) return undefined
      await tx.changeRun(id, { holder: holder.id })
      return { ...run, holder: holder.id }
    })
    if (!taken) continue
    log.warn('a run whose process is gone is taken over', { runId: id, state: taken.state })
    active.launch(taken)
  }
}
