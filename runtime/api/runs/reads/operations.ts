import type { Overdue } from '../../../../contracts/diagnostics.ts'
import type { SandboxKind } from '../../../../contracts/names.ts'
import { deadline } from '../../../kit/deadline.ts'
import { present } from '../../../kit/present.ts'
import type { StoreFigures } from '../../../store/figures.ts'
import type { RunDeps } from '../deps.ts'
import { DRIVEN } from '../run-view.ts'

/** A sweep or a takeover runs every few seconds. Work that is later than this is stuck. */
const GRACE_MS = 60_000
/** A scrape must not wait for a store that does not respond. */
const READ_TIMEOUT_MS = 5_000
/** Counted up to here: beyond it the exact number does not matter. */
const MAX_COUNTED = 1_000

export type Operations = { readonly figures: StoreFigures; readonly overdue: Overdue }

type OperationDeps = Pick<RunDeps, 'store' | 'provider' | 'limits' | 'restrictions' | 'clock'>

/** Rejects with `unavailable` while the store cannot be used. */
export async function readOperations(deps: OperationDeps): Promise<Operations> {
  return deadline('reading the figures of the store', READ_TIMEOUT_MS, readAll(deps))
}

async function readAll({ store, provider, limits, restrictions, clock }: OperationDeps): Promise<Operations> {
  const before = new Date(clock().getTime() - GRACE_MS).toISOString()
  await store.ping()
  const [figures, queue, abandoned] = await Promise.all([
    store.readFigures({ expiredBefore: before, endedBefore: before }),
    store.listOverdueInQueue({
      afterMs: limits.queueTimeoutMs + GRACE_MS,
      limit: MAX_COUNTED,
      ...present({ without: restrictions.frozen }),
    }),
    // Only processes that share runs have names with a lease.
    provider.shared ? store.listAbandonedRuns(DRIVEN, MAX_COUNTED) : [],
  ])
  return {
    figures,
    overdue: {
      approval_expiry: figures.gates.reduce((sum, { overdue }) => sum + overdue, 0),
      sandbox_release: figures.unreleased,
      queue_deadline: queue.length,
      run_takeover: abandoned.length,
    },
  }
}

/** The runs of one kind that wait for a sandbox. Runs of services that a command started have separate lanes. */
export function queueOf({ queue }: Pick<StoreFigures, 'queue'>, kind: SandboxKind) {
  const lanes = queue.filter(({ lane }) => lane.split('/')[0] === kind)
  return {
    waiting: lanes.reduce((sum, { count }) => sum + count, 0),
    oldestMs: Math.max(0, ...lanes.map(({ oldestMs }) => oldestMs)),
  }
}
