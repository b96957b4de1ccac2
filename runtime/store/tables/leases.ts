import { sql } from 'kysely'
import type { Scope } from '../engine.ts'

export interface LeaseRequest {
  readonly name: string
  readonly holder: string
  readonly ttlMs: number
}

/**
 * One statement by the store's clock: of several simultaneous requests, one acquires the lease. Its holder renews it.
 */
export async function acquireLease({ db, engine }: Scope, lease: LeaseRequest): Promise<boolean> {
  const expires = sql<number>`${engine.nowMs} + ${sql.lit(Math.round(lease.ttlMs))}`
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('leases')
    .values({ name: lease.name, holder: lease.holder, expires_ms: expires })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({ holder: lease.holder, expires_ms: expires })
        .where(({ eb, or }) =>
          or([eb('leases.holder', '=', lease.holder), eb('leases.expires_ms', '<=', engine.nowMs)]),
        ),
    )
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

export async function releaseLease({ db }: Scope, name: string, holder: string): Promise<void> {
  await db.deleteFrom('leases').where('name', '=', name).where('holder', '=', holder).execute()
}
