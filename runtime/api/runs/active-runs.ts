import { SandboxError } from '../../kit/errors.ts'
import type { RunRow } from '../../store/store.ts'
import { ActiveRun, type ActiveRunParts } from './active-run.ts'
import type { RunDeps } from './deps.ts'

/** The runs that this process drives, and the places that runs may take. */
export function createActiveRuns(deps: RunDeps, parts: ActiveRunParts) {
  const { limits } = deps
  const active = new Map<string, ActiveRun>()
  /** Owners of places that are taken, by run id; a run that waits for its upload holds one too. */
  const places = new Map<string, string>()

  return {
    /** Takes a place for an owner's new run, or throws `too_many_runs`. The answer gives it a run's id. */
    reserve(owner: string): { assign: (runId: string) => void; cancel: () => void } {
      // Where several processes drive runs the store counts them all, in the transaction that writes the next one.
      if (deps.provider.shared) return { assign: () => undefined, cancel: () => undefined }
      const own = [...places.values()].filter((other) => other === owner).length
      if (places.size >= limits.maxRuns) {
        throw allPlacesTaken(limits.maxRuns)
      }
      if (own >= limits.maxRunsPerOwner) {
        throw ownPlacesTaken(own, limits.maxRunsPerOwner)
      }
      const reservation = `reserved:${crypto.randomUUID()}`
      places.set(reservation, owner)
      return {
        assign: (runId) => {
          places.delete(reservation)
          places.set(runId, owner)
        },
        cancel: () => places.delete(reservation),
      }
    },

    /** Drives a run, from wherever it is, until it ends; twice for one run is once. */
    launch(run: RunRow): ActiveRun {
      const known = active.get(run.id)
      if (known) return known
      const driven = new ActiveRun(deps, parts, run)
      active.set(run.id, driven)
      void driven.finished.finally(() => {
        active.delete(run.id)
        places.delete(run.id)
      })
      return driven
    },

    get: (runId: string): ActiveRun | undefined => active.get(runId),
    giveUp: (runId: string) => places.delete(runId),
    list: (): ActiveRun[] => [...active.values()],
    get taken(): number {
      return deps.provider.shared ? active.size : places.size
    },
  }
}

export const allPlacesTaken = (limit: number) =>
  new SandboxError('too_many_runs', `all ${limit} places of this deployment are taken; try again later`)

export const ownPlacesTaken = (own: number, limit: number) =>
  new SandboxError('too_many_runs', `you have ${own} active runs, the limit is ${limit}`)

export type ActiveRuns = ReturnType<typeof createActiveRuns>
