import type { Run } from '../../../../contracts/api.ts'
import { type Lane, laneOf, QUEUED_STATES, type QueueView } from '../../../store/queue.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { Effect } from '../restrictions/restrictions.ts'
import { toRestriction } from '../restrictions/set-restriction.ts'
import { isFinal, toRun } from '../run-view.ts'
import { underWayQuery } from './pick-next.ts'

const inForce = ({ applied }: Effect) => applied.filter(({ level }) => level !== 'normal').map(toRestriction)

/** With fewer recent starts, the pace of the queue is unknown. */
const FEWEST_STARTS = 3
/** Reading all positions takes tens of milliseconds at 10,000 waiting runs, so they may be a second old. */
const MAX_AGE_MS = 1_000

const QUEUED: ReadonlySet<RunRow['state']> = new Set(QUEUED_STATES)

/** What callers see of runs, with the position of each run that waits in the queue. */
export function createRunViews(deps: Pick<RunDeps, 'store' | 'provider' | 'holder' | 'restrictions'>) {
  const known = new Map<Lane, { readonly at: number; readonly view: Promise<QueueView> }>()

  function viewOf(lane: Lane, isFresh: boolean): Promise<QueueView> {
    const last = known.get(lane)
    if (!isFresh && last && performance.now() - last.at < MAX_AGE_MS) return last.view
    const view = deps.store.viewQueue({ lane, underWay: underWayQuery(deps) })
    known.set(lane, { at: performance.now(), view })
    return view
  }

  async function placeOf(row: RunRow): Promise<Run['queue']> {
    if (!QUEUED.has(row.state)) return undefined
    const lane = laneOf(row)
    let view = await viewOf(lane, false)
    // It was queued after the positions were read.
    if (!view.positions.has(row.id)) view = await viewOf(lane, true)
    const position = view.positions.get(row.id)
    return position === undefined ? undefined : { position, ...estimate(view, position) }
  }

  return {
    async of(row: RunRow): Promise<Run> {
      const queue = await placeOf(row)
      const restrictions = isFinal(row) ? [] : inForce(deps.restrictions.of(row))
      return {
        ...toRun(row),
        ...(queue && { queue }),
        ...(restrictions.length > 0 && { restrictions }),
      }
    },
  }
}

export type RunViews = ReturnType<typeof createRunViews>

/**
 * When the run starts if the queue goes on at its recent pace. The time since the last start counts too, so that the estimate
 * of a queue that stands still grows.
 */
export function estimate(
  { starts, nowMs }: Pick<QueueView, 'starts' | 'nowMs'>,
  position: number,
): { estimatedStart?: string } {
  if (starts.count < FEWEST_STARTS) return {}
  const msPerStart = (nowMs - starts.firstMs) / starts.count
  return { estimatedStart: new Date(nowMs + Math.round(msPerStart * position)).toISOString() }
}
