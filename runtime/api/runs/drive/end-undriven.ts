import { QUEUED_STATES } from '../../../store/queue.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { concludeResults } from '../results/conclude-results.ts'
import { type Ending, type FinishParts, finishRun } from './finish.ts'

type Wanted = {
  readonly id: string
  readonly ending: Ending
  /** @default every run that no process drives */
  readonly onlyIf?: (run: RunRow) => boolean
}

const UNDRIVEN: ReadonlySet<RunRow['state']> = new Set(['suspended', ...QUEUED_STATES])

/**
 * Ends a run that is suspended or waits in the queue, and stores its results. Returns false for any other run. From the first
 * commit on, nothing can resume or start it, so its folder is not removed under a new sandbox.
 */
export async function endUndriven(
  deps: RunDeps,
  parts: FinishParts,
  { id, ending, onlyIf = () => true }: Wanted,
): Promise<boolean> {
  const run = await deps.store.transaction(async (tx) => {
    const current = await tx.readRun(id)
    if (!current || !UNDRIVEN.has(current.state) || !onlyIf(current)) return undefined
    if (current.ending === undefined) await tx.changeRun(id, { ending })
    // If this process dies before the next commit, the sweep of the queue ends the run.
    await tx.expireInQueue(id)
    return current
  })
  if (!run) return false
  const events = await concludeResults(deps, run)
  const stillUndriven = ({ state }: RunRow) => UNDRIVEN.has(state)
  await finishRun(deps, parts, { runId: id, ending, events, onlyIf: stillUndriven })
  return true
}
