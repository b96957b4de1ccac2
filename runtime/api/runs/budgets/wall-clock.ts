import { delay } from '../../../kit/deadline.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { nextThreshold, type SpentBudget, spend, spentBudget } from './spend.ts'

/**
 * Resolves with a budget of the run that is used up: at once, if an earlier driver used it up, or when the wall-clock
 * time is over. Reports how much of that time is used. Resolves with undefined if the signal aborts first, and for a run
 * without such a budget.
 */
export async function watchBudgets(
  { store, clock }: Pick<RunDeps, 'store' | 'clock'>,
  given: RunRow,
  signal: AbortSignal,
): Promise<SpentBudget | undefined> {
  const { id, settings } = given
  const spentBefore = spentBudget(given)
  if (spentBefore || settings.budgets?.wall_seconds === undefined) return spentBefore
  while (!signal.aborted) {
    const { waitMs, spent } = await whileHeld(store, given, async (tx, run) => {
      const seconds = wallSeconds(run, clock())
      const { usage, notices, ...rest } = spend(run, { wall_seconds: seconds - run.usage.wall_seconds })
      if (notices.length > 0) {
        await tx.changeRun(id, { usage })
        await tx.appendEvents(
          id,
          notices.map((event) => ({ event })),
        )
      }
      const next = nextThreshold({ settings, usage }, 'wall_seconds') ?? seconds
      return { waitMs: Math.ceil((next - seconds) * 1000), spent: rest.spent }
    })
    if (spent?.kind === 'wall_seconds') return spent
    await delay(Math.max(waitMs, 1), signal).catch(() => undefined)
  }
  return undefined
}

/** Seconds since the run started, until now or until its end. */
export function wallSeconds(
  { startedAt, endedAt }: Pick<RunRow, 'startedAt' | 'endedAt'>,
  now: Date,
): number {
  if (startedAt === undefined) return 0
  const until = endedAt === undefined ? now.getTime() : Date.parse(endedAt)
  return Math.max(0, until - Date.parse(startedAt)) / 1000
}
