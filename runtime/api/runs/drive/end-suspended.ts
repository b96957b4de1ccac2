import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { type Ending, type FinishParts, finishRun } from './finish.ts'

type Wanted = {
  readonly id: string
  readonly ending: Ending
  /** @default every suspended run */
  readonly onlyIf?: (run: RunRow) => boolean
}

/**
 * Ends a suspended run and stores its results. Returns false if the run is not suspended. From the first commit on, nothing
 * can resume it, so its folder is not removed under a new sandbox.
 */
export async function endSuspended(
  deps: RunDeps,
  parts: FinishParts,
  { id, ending, onlyIf = () => true }: Wanted,
): Promise<boolean> {
  const run = await deps.store.transaction(async (tx) => {
    const current = await tx.readRun(id)
    if (current?.state !== 'suspended' || !onlyIf(current)) return undefined
    if (current.ending === undefined) await tx.changeRun(id, { ending })
    return current
  })
  if (!run) return false
  const events = await deps.folders?.conclude(run)
  const isSuspended = ({ state }: RunRow) => state === 'suspended'
  await finishRun(deps, parts, { runId: id, ending, ...(events && { events }), onlyIf: isSuspended })
  return true
}
