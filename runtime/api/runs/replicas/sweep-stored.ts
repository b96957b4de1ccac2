import { messageOf } from '../../../kit/errors.ts'
import type { RunDeps } from '../deps.ts'
import { repeat } from '../repeat.ts'

const EVERY_MS = 60_000
/** Several processes share one store; one of them sweeps. Shorter than the interval, so that the same one may continue. */
const LEASE_MS = 55_000
const PER_PASS = 500
const PASSES_PER_ROUND = 10

type SweepDeps = Pick<RunDeps, 'store' | 'limits' | 'holder' | 'clock' | 'log'>

/**
 * Deletes stored data that nothing needs any more: contents without a reference, checkpoints of runs that ended longer ago
 * than the retention, and old idempotency keys.
 */
export const sweepStored = (deps: SweepDeps): { stop(): Promise<void> } =>
  repeat(
    () =>
      sweepRound(deps).catch((error: unknown) =>
        deps.log.warn('stored data could not be swept', { error: messageOf(error) }),
      ),
    EVERY_MS,
  )

async function sweepRound({ store, limits, holder, clock, log }: SweepDeps): Promise<void> {
  if (!(await store.acquireLease('sweep', holder.id, LEASE_MS))) return
  const now = clock()
  const endedBefore = new Date(now.getTime() - limits.suspendedRetentionMs).toISOString()
  for (let pass = 0; pass < PASSES_PER_ROUND; pass += 1) {
    const deleted = await store.sweep({ endedBefore, now, limit: PER_PASS })
    if (deleted > 0) log.info('deleted stored data that is no longer needed', { deleted })
    if (deleted < PER_PASS) return
  }
}
