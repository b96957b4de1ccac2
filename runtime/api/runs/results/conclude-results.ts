import type { RunEvent } from '../../../../contracts/events.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { storeUploadResults } from './upload-results.ts'

/** Stores the results of a run that has no sandbox any more: of a folder of this machine, or of an uploaded one. */
export async function concludeResults(
  deps: Pick<RunDeps, 'store' | 'redactResult' | 'log' | 'folders'>,
  run: RunRow,
): Promise<RunEvent[]> {
  if (run.workspace.kind === 'upload') return storeUploadResults(deps, run)
  return (await deps.folders?.conclude(run)) ?? []
}
