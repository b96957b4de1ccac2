import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { IdempotencyKey, IdempotencyRow } from '../service-rows.ts'

const FORGOTTEN_AFTER_MS = 24 * 3_600_000

export async function readIdempotencyKey(
  { db }: Scope,
  { owner, key }: IdempotencyKey,
  now: Date,
): Promise<IdempotencyRow | undefined> {
  const row = await db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('owner', '=', toText(owner))
    .where('key', '=', toText(key))
    .where('created_at', '>=', horizonOf(now))
    .executeTakeFirst()
  return row && toIdempotencyRow(row)
}

function toIdempotencyRow(row: object): IdempotencyRow {
  const at = new RowReader('idempotency_keys', row)
  return {
    owner: at.text('owner'),
    key: at.text('key'),
    fingerprint: at.plain('fingerprint'),
    status: at.integer('status'),
    body: at.text('body'),
    createdAt: at.plain('created_at'),
  }
}

/** Of two simultaneous requests with one key, one gets `true`; the other waits for its commit and gets `false`. */
export async function insertIdempotencyKey(scope: Scope, row: IdempotencyRow): Promise<boolean> {
  await forgetOld(scope, row)
  const { numInsertedOrUpdatedRows } = await scope.db
    .insertInto('idempotency_keys')
    .values(columnsOf(row))
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

export async function writeIdempotencyKey(scope: Scope, row: IdempotencyRow): Promise<void> {
  await forgetOld(scope, row)
  const { status, body } = columnsOf(row)
  await scope.db
    .insertInto('idempotency_keys')
    .values(columnsOf(row))
    .onConflict((conflict) => conflict.columns(['owner', 'key']).doUpdateSet({ status, body }))
    .execute()
}

/** Deletes expired keys. Returns their number. */
export async function deleteOldKeys({ db }: Scope, now: Date): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('idempotency_keys')
    .where('created_at', '<', horizonOf(now))
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

async function forgetOld({ db }: Scope, { createdAt }: IdempotencyRow): Promise<void> {
  const horizon = horizonOf(new Date(createdAt))
  await db.deleteFrom('idempotency_keys').where('created_at', '<', horizon).execute()
}

const columnsOf = (row: IdempotencyRow) => ({
  owner: toText(row.owner),
  key: toText(row.key),
  fingerprint: row.fingerprint,
  status: row.status,
  body: toText(row.body),
  created_at: row.createdAt,
})

const horizonOf = (now: Date): string => new Date(now.getTime() - FORGOTTEN_AFTER_MS).toISOString()
