import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { Requested } from '../launch/request.ts'
import { ActiveRun } from './active-run.ts'
import type { ActiveRunParts } from './active-run-parts.ts'

/** The runs that this process drives. `onPlace` is called when one of them has taken its hands off its run. */
export function createActiveRuns(deps: RunDeps, parts: ActiveRunParts, onPlace: () => void) {
  const active = new Map<string, ActiveRun>()
  return {
    /**
     * Drives a run from its stored position until it ends. A run that is driven already is left to its driver, unless
     * that one was abandoned or has left: then a new driver begins when the old one has stopped. `request` is the one that was
     * stored when the run was picked; the driver before, if there is one, has left.
     */
    launch(run: RunRow, request?: Requested): ActiveRun {
      const known = active.get(run.id)
      if (known && !known.isAbandoned && !known.hasLeft && !request) return known
      const driven = new ActiveRun(deps, parts, { run, ...present({ after: known?.finished, request }) })
      active.set(run.id, driven)
      void driven.finished.finally(() => {
        if (active.get(run.id) === driven) active.delete(run.id)
        onPlace()
      })
      return driven
    },

    /** The driver of a run in this process; none once it was abandoned. */
    get: (runId: string): ActiveRun | undefined => {
      const driven = active.get(runId)
      return driven?.isAbandoned || driven?.hasLeft ? undefined : driven
    },
    list: (): ActiveRun[] => [...active.values()],
    get taken(): number {
      return active.size
    },
  }
}

export type ActiveRuns = ReturnType<typeof createActiveRuns>
