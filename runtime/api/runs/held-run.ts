import { SandboxError } from '../../kit/errors.ts'
import type { Held, RunRow, Store, Transaction } from '../../store/store.ts'

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

/** Not after the run was given to another driver, of this process or of another one. */
export const isDrivenAs = (held: Held, generation: number, current: RunRow): boolean =>
  isHeld(held, current) && current.generation === generation
