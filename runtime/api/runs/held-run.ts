import { SandboxError } from '../../kit/errors.ts'
import type { RunRow, Store, Transaction } from '../../store/store.ts'

/** The part of a run that identifies its driver: the id of the run and the name of the driving process. */
export type Held = Pick<RunRow, 'id' | 'holder'>

/** A transaction of the run's driver. Throws `conflict` if another process has taken over the run. */
export function whileHeld<T>(
  store: Store,
  held: Held,
  work: (tx: Transaction, run: RunRow) => Promise<T>,
): Promise<T> {
  return store.transaction(async (tx) => work(tx, requireHeld(held, await tx.readRun(held.id))))
}

export function requireHeld(held: Held, current: RunRow | undefined): RunRow {
  if (current && current.holder === held.holder) return current
  throw new SandboxError('conflict', `another process drives the run ${held.id}`)
}

export const isHeld = (held: Held, current: RunRow | undefined): boolean => current?.holder === held.holder
