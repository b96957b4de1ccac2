import { toText } from '../codec.ts'
import { Roles } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { ApiKeyRow } from '../service-rows.ts'

export async function insertApiKey({ db }: Scope, { createdAt, ...key }: ApiKeyRow): Promise<void> {
  await db
    .insertInto('api_keys')
    .values({ ...key, owner: toText(key.owner), created_at: createdAt })
    .execute()
}

export async function readApiKey({ db }: Scope, hash: string): Promise<ApiKeyRow | undefined> {
  const row = await db.selectFrom('api_keys').selectAll().where('hash', '=', toText(hash)).executeTakeFirst()
  return row && toApiKey(row)
}

function toApiKey(row: object): ApiKeyRow {
  const at = new RowReader('api_keys', row)
  return {
    id: at.plain('id'),
    hash: at.plain('hash'),
    owner: at.text('owner'),
    role: at.oneOf('role', Roles),
    createdAt: at.plain('created_at'),
  }
}

export async function countApiKeys({ db }: Scope): Promise<number> {
  const row = await db
    .selectFrom('api_keys')
    .select(({ fn }) => fn.countAll().as('count'))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}
