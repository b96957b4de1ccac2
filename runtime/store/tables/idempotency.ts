import { fromOptionalText, fromText, present, toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { IdempotencyRow } from '../store.ts'

const FORGOTTEN_AFTER_MS = 24 * 3_600_000

export type KeyClaim = { readonly fresh: true } | { readonly fresh: false; readonly row: IdempotencyRow }

/** Of two requests with one key that come at once, one gets `fresh`. */
export async function claimIdempotencyKey(
  { db }: Scope,
  claim: Omit<IdempotencyRow, 'state'>,
): Promise<KeyClaim> {
  const oldest = new Date(Date.parse(claim.createdAt) - FORGOTTEN_AFTER_MS).toISOString()
  await db.deleteFrom('idempotency_keys').where('created_at', '<', oldest).execute()
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('idempotency_keys')
    .values({
      owner: toText(claim.owner),
      key: toText(claim.key),
      fingerprint: claim.fingerprint,
      state: 'pending',
      status: null,
      body: null,
      created_at: claim.createdAt,
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 1n) return { fresh: true }
  return { fresh: false, row: await readKey({ db }, claim) }
}

async function readKey(
  { db }: Pick<Scope, 'db'>,
  { owner, key }: Pick<IdempotencyRow, 'owner' | 'key'>,
): Promise<IdempotencyRow> {
  const row = await db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('owner', '=', toText(owner))
    .where('key', '=', toText(key))
    .executeTakeFirstOrThrow()
  return {
    ...present({ status: row.status, body: fromOptionalText(row.body) }),
    owner: fromText(row.owner),
    key: fromText(row.key),
    fingerprint: row.fingerprint,
    state: row.state,
    createdAt: row.created_at,
  }
}

/** Without an answer the key is free again: the request failed in a way that a retry may not repeat. */
export async function finishIdempotencyKey(
  { db }: Scope,
  { owner, key }: Pick<IdempotencyRow, 'owner' | 'key'>,
  answer: { status: number; body: string } | undefined,
): Promise<void> {
  if (!answer) {
    await db
      .deleteFrom('idempotency_keys')
      .where('owner', '=', toText(owner))
      .where('key', '=', toText(key))
      .execute()
    return
  }
  await db
    .updateTable('idempotency_keys')
    .set({ state: 'done', status: answer.status, body: toText(answer.body) })
    .where('owner', '=', toText(owner))
    .where('key', '=', toText(key))
    .execute()
}
