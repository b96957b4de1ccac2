import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { ActiveRun } from './active-run.ts'
import type { ActiveRunParts } from './active-run-parts.ts'

/** The runs that this process drives, and the places that runs may take. */
export function createActiveRuns(deps: RunDeps, parts: ActiveRunParts) {
  const { limits } = deps
  const active = new Map<string, ActiveRun>()
  /** Owners of places that are taken, by run id; a run that waits for its upload holds one too. */
  const places = new Map<string, string>()

  /** Runs that continue, and wait for a place. */
  const waiting: { readonly run: RunRow; readonly go: () => void }[] = []

  /** Undefined if the run has a place now. */
  function takePlace(run: RunRow): Promise<void> | undefined {
    if (places.has(run.id)) return undefined
    if (places.size < limits.maxRuns) {
      places.set(run.id, run.owner)
      return undefined
    }
    return new Promise((go) => waiting.push({ run, go }))
  }

  function freePlace(id: string): void {
    places.delete(id)
    const unneeded = waiting.findIndex(({ run }) => run.id === id)
    if (unneeded >= 0) waiting.splice(unneeded, 1)
    const next = places.size < limits.maxRuns ? waiting.shift() : undefined
    if (!next) return
    places.set(next.run.id, next.run.owner)
    next.go()
  }

  /**
   * The driver of a run that is to be driven now. A driver under a former name of this process is abandoned: the run may have
   * been stored just before the process lost its name.
   */
  function driverFor(run: RunRow): ActiveRun | undefined {
    const known = active.get(run.id)
    if (known?.hasLeft && !known.isAbandoned) known.successor = run
    else if (known && known.run.holder !== run.holder) known.abandon()
    return known
  }

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
        cancel: () => freePlace(reservation),
      }
    },

    /**
     * Drives a run from its stored position until it ends. A run that is driven already is left to its driver, unless
     * that one was abandoned: then a new driver begins when the old one has stopped.
     */
    launch(run: RunRow): ActiveRun {
      const known = driverFor(run)
      if (known && !known.isAbandoned) return known
      const place = deps.provider.shared ? undefined : takePlace(run)
      const driven = new ActiveRun(deps, parts, { run, ...present({ after: known?.finished, place }) })
      active.set(run.id, driven)
      void driven.finished.finally(() => {
        if (active.get(run.id) !== driven) return
        active.delete(run.id)
        if (driven.successor) this.launch(driven.successor)
        else freePlace(run.id)
      })
      return driven
    },

    /** The driver of a run in this process; none once it was abandoned. */
    get: (runId: string): ActiveRun | undefined => {
      const driven = active.get(runId)
      return driven?.isAbandoned || driven?.hasLeft ? undefined : driven
    },
    giveUp: (runId: string) => freePlace(runId),
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
