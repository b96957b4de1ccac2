import { fromText, toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { ApiKeyRow } from '../store.ts'

export async function insertApiKey({ db }: Scope, { createdAt, ...key }: ApiKeyRow): Promise<void> {
  await db
    .insertInto('api_keys')
    .values({ ...key, owner: toText(key.owner), created_at: createdAt })
    .execute()
}

export async function readApiKey({ db }: Scope, hash: string): Promise<ApiKeyRow | undefined> {
  const row = await db.selectFrom('api_keys').selectAll().where('hash', '=', toText(hash)).executeTakeFirst()
  return (
    row && {
      id: row.id,
      hash: row.hash,
      owner: fromText(row.owner),
      role: row.role,
      createdAt: row.created_at,
    }
  )
}

export async function countApiKeys({ db }: Scope): Promise<number> {
  const row = await db
    .selectFrom('api_keys')
    .select(({ fn }) => fn.countAll().as('count'))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}
