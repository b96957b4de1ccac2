import { SandboxError } from '../../../kit/errors.ts'
import type { Lane, OpenLane, QueueHead, RunsByOwner, UnderWayQuery } from '../../../store/queue.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import type { RunDeps, RunLimits } from '../deps.ts'
import { draftRequest, type Requested, storeRequest } from '../launch/request.ts'
import { transition } from '../machine/transition.ts'
import { DRIVEN } from '../run-view.ts'

/** More candidates than needed, because another transaction may have locked one of them. */
const SPARE = 8

/** A run that this process is to start, with its stored request for a sandbox. */
export type Picked = { readonly run: RunRow; readonly lane: Lane; readonly request: Requested }

type PickDeps = Pick<
  RunDeps,
  'store' | 'provider' | 'keys' | 'clock' | 'limits' | 'holder' | 'log' | 'restrictions'
>

/** The runs that have a sandbox, or are about to get one: of the deployment, or of this process if no other drives runs. */
export const underWayQuery = ({ provider, holder }: Pick<RunDeps, 'provider' | 'holder'>): UnderWayQuery =>
  provider.shared ? { states: DRIVEN } : { states: DRIVEN, holder: holder.id }

/**
 * Picks the next run of the queue for this process, in one transaction: of all processes one gets it. Undefined if no
 * run may start.
 */
export async function pickNext(deps: PickDeps, lanes: readonly OpenLane[]): Promise<Picked | undefined> {
  return deps.store.transaction(async (tx) => {
    for (const { runId, lane } of await candidates(tx, deps, lanes)) {
      // Another transaction ends or changes this run at the moment.
      if (!(await tx.lockRunIfFree(runId))) continue
      const run = await readable(tx, deps, runId)
      if (!run || run.ending !== undefined) continue
      const request = draftRequest(deps, run)
      const facts = { generation: request.claim.generation, holder: deps.holder.id }
      const state = await transition(tx, run, { event: { kind: 'picked' }, facts })
      await storeRequest(tx, deps, { runId, request })
      // A new generation begins without events of its sandbox.
      return { run: { ...run, ...facts, state, hostSequence: 0, hostReread: 0 }, lane, request }
    }
    return undefined
  })
}

/** A row that this release cannot read must not keep the runs behind it from starting. */
async function readable(tx: Transaction, { log }: PickDeps, runId: string): Promise<RunRow | undefined> {
  try {
    return await tx.readRun(runId)
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code !== 'store_damaged') throw error
    log.error('a run of the queue cannot be read', { runId, error })
    return undefined
  }
}

/** Runs that may start now, in the order of the queue. */
export async function candidates(
  tx: Transaction,
  deps: Pick<RunDeps, 'provider' | 'holder' | 'limits' | 'restrictions'>,
  lanes: readonly OpenLane[],
): Promise<QueueHead[]> {
  const { all, ...without } = deps.restrictions.frozen
  if (all) return []
  const underWay = await tx.countRunsUnderWay(underWayQuery(deps))
  if (sum(underWay) >= deps.limits.maxRuns) return []
  // At most so many of the oldest runs are of owners who have a run already. So the list has the next one.
  const limit = underWay.size + SPARE
  return inOrder(await tx.listQueueHeads({ lanes, limit, without }), underWay, deps.limits)
}

const sum = (counts: RunsByOwner) => [...counts.values()].reduce((total, count) => total + count, 0)

/** Owners take turns: the owner with the fewest runs first, then the owner that has waited longest for its turn. */
export function inOrder<T extends QueueHead>(
  heads: readonly T[],
  underWay: RunsByOwner,
  { maxRunsPerOwner }: Pick<RunLimits, 'maxRunsPerOwner'>,
): T[] {
  const has = ({ owner }: QueueHead) => underWay.get(owner) ?? 0
  return heads
    .filter((head) => has(head) < maxRunsPerOwner)
    .sort(
      (a, b) =>
        has(a) - has(b) || a.turnMs - b.turnMs || (a.runId < b.runId ? -1 : Number(a.runId > b.runId)),
    )
}
