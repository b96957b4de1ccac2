import { bestEffort } from '../../../kit/best-effort.ts'
import { messageOf } from '../../../kit/errors.ts'
import type { RunDeps } from '../deps.ts'
import { endUndriven } from '../drive/end-undriven.ts'
import type { Ending, FinishParts } from '../drive/finish.ts'
import { repeat } from '../repeat.ts'
import type { Dispatcher } from './dispatcher.ts'

const EVERY_MS = 1_000
const BATCH = 200
/** Such runs exist only during an upgrade of the replicas. */
const LEFT_BEHIND_EVERY_MS = 60_000

/** One timer for all runs that wait: they start when they are due, and end after the deadline of the queue. */
export function watchQueue(
  deps: RunDeps,
  parts: FinishParts & { readonly queue: Pick<Dispatcher, 'wake'> },
): { stop(): Promise<void> } {
  let lookedAt = Number.NEGATIVE_INFINITY
  const round = async () => {
    parts.queue.wake()
    if (deps.isTemporary) return
    if (performance.now() - lookedAt > LEFT_BEHIND_EVERY_MS) {
      lookedAt = performance.now()
      await bestEffort(deps.log, 'queue the runs of an earlier release', () => queueLeftBehind(deps))
    }
    await endOverdue(deps, parts).catch((error: unknown) =>
      deps.log.warn('runs that wait too long could not be looked at', { error: messageOf(error) }),
    )
  }
  return repeat(round, EVERY_MS)
}

/** A replica of an earlier release keeps its waiting runs in memory. When it has stopped, nothing would start them. */
export async function queueLeftBehind({ store, log }: Pick<RunDeps, 'store' | 'log'>): Promise<void> {
  const ids = await store.transaction((tx) => tx.queueLeftBehind(BATCH))
  for (const runId of ids) log.warn('a run of an earlier release is put into the queue', { runId })
}

/** Ends runs that waited too long for their first sandbox, and those whose end was not stored completely. */
export async function endOverdue(deps: RunDeps, parts: FinishParts): Promise<void> {
  const { store, limits, log, restrictions } = deps
  const overdue = await store.listOverdueInQueue({
    afterMs: limits.queueTimeoutMs,
    limit: BATCH,
    without: restrictions.frozen,
  })
  for (const id of overdue) {
    await bestEffort(log, `end the queued run ${id}`, async () => {
      const run = await store.readRun(id)
      const ending = (run?.ending as Ending | undefined) ?? waitedTooLong(limits.queueTimeoutMs)
      await endUndriven(deps, parts, { id, ending })
    })
  }
}

const waitedTooLong = (afterMs: number): Ending => ({
  state: 'failed',
  code: 'capacity_unavailable',
  message:
    `The run waited ${afterMs / 1000} s in the queue and got no sandbox. ` +
    'Start it again when fewer runs wait, or ask an operator for more room.',
})
