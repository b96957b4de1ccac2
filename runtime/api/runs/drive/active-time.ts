import { messageOf } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'

/** How much is written down ahead: a run loses at most so much of its time to each change of its driver, and gains none. */
export const CHARGE_MS = 10_000

/** The active time of one run, over all who drive it. */
export interface ActiveTime {
  readonly ms: number
  add(ms: number): void
}

/**
 * Continues the count in the run's row. Time is charged before it is used, so a new driver never counts less. A charge
 * that could not be written is repeated with the next one.
 */
export function activeTimeOf({ store, log }: Pick<RunDeps, 'store' | 'log'>, run: RunRow): ActiveTime {
  let usedMs = run.activeMs
  let chargedMs = run.activeMs
  let isCharging = false

  async function charge(): Promise<void> {
    const activeMs = Math.round(usedMs + CHARGE_MS)
    try {
      await whileHeld(store, run, (tx) => tx.changeRun(run.id, { activeMs }))
      chargedMs = activeMs
    } catch (error) {
      log.warn('the active time of a run could not be written', { runId: run.id, error: messageOf(error) })
    }
    isCharging = false
  }

  return {
    get ms() {
      return usedMs
    },
    add(ms) {
      usedMs += ms
      if (usedMs <= chargedMs || isCharging) return
      isCharging = true
      void charge()
    },
  }
}
