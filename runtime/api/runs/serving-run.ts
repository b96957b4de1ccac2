import { SandboxError } from '../../kit/errors.ts'
import type { Store } from '../../store/store.ts'
import type { ActiveRun } from './active-run.ts'
import type { ActiveRuns } from './active-runs.ts'
import { isFinal, requireRun } from './run-view.ts'
import type { Caller } from './service.ts'

/** Finds the driver of a run that serves; a run that has ended or waits for its upload has none. */
export function servingRunFinder(store: Store, active: ActiveRuns) {
  return async (caller: Caller, id: string): Promise<ActiveRun> => {
    const run = await requireRun(store, caller, id)
    const driven = active.get(id)
    if (driven) return driven
    if (isFinal(run)) throw new SandboxError('run_ended', `run ${id} has ended (${run.state})`)
    throw new SandboxError('run_not_ready', `run ${id} is ${run.state}`)
  }
}
