import type { Selectable } from 'kysely'
import { SandboxError } from '../../kit/errors.ts'
import type { ApiKeyStore, ApiKeyTransaction } from '../api-key-store.ts'
import { present, toOptionalText, toText } from '../codec.ts'
import { Roles } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { Tables } from '../schema.ts'
import type { ApiKeyQuery, ApiKeyRow } from '../service-rows.ts'
import type { Write } from './blobs.ts'

type Row = Selectable<Tables['api_keys']>

const toRow = (key: ApiKeyRow): Row => ({
  id: key.id,
  hash: key.hash,
  owner: toText(key.owner),
  role: key.role,
  created_at: key.createdAt,
  name: toOptionalText(key.name),
  created_by: toOptionalText(key.createdBy),
  created_with: key.createdWith ?? null,
  expires_at: key.expiresAt ?? null,
  revoked_at: key.revokedAt ?? null,
  revoked_by: toOptionalText(key.revokedBy),
  last_used_at: key.lastUsedAt ?? null,
})

async function insertApiKey({ db }: Scope, key: ApiKeyRow): Promise<void> {
  await db.insertInto('api_keys').values(toRow(key)).execute()
}

async function readApiKey({ db }: Scope, hash: string): Promise<ApiKeyRow | undefined> {
  const row = await db.selectFrom('api_keys').selectAll().where('hash', '=', toText(hash)).executeTakeFirst()
  return row && toApiKey(row)
}

async function readApiKeyById({ db }: Scope, id: string): Promise<ApiKeyRow | undefined> {
  const row = await db.selectFrom('api_keys').selectAll().where('id', '=', toText(id)).executeTakeFirst()
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
    ...present({
      name: at.optionalText('name'),
      createdBy: at.optionalText('created_by'),
      createdWith: at.optionalPlain('created_with'),
      expiresAt: at.optionalPlain('expires_at'),
      revokedAt: at.optionalPlain('revoked_at'),
      revokedBy: at.optionalText('revoked_by'),
      lastUsedAt: at.optionalPlain('last_used_at'),
    }),
  }
}

async function countApiKeys({ db }: Scope): Promise<number> {
  const row = await db
    .selectFrom('api_keys')
    .select(({ fn }) => fn.countAll().as('count'))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

/** Keys that are neither revoked nor expired, of one owner or created with one key. */
async function listUsableApiKeys(
  { db }: Scope,
  of: Parameters<ApiKeyTransaction['listUsableApiKeys']>[0],
  { now, limit }: Parameters<ApiKeyTransaction['listUsableApiKeys']>[1],
): Promise<ApiKeyRow[]> {
  const query = db
    .selectFrom('api_keys')
    .selectAll()
    .where('revoked_at', 'is', null)
    .where(({ eb }) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', now)]))
  const chosen =
    'owner' in of
      ? query.where('owner', '=', toText(of.owner))
      : query.where('created_with', '=', toText(of.createdWith))
  const rows = await chosen.orderBy('created_at').orderBy('id').limit(limit).execute()
  return rows.map(toApiKey)
}

/** The ids among these whose key is revoked, expired or absent. */
async function listUnusableApiKeys({ db }: Scope, ids: readonly string[], now: string): Promise<string[]> {
  if (ids.length === 0) return []
  const rows = await db
    .selectFrom('api_keys')
    .select('id')
    .where('id', 'in', ids.map(toText))
    .where('revoked_at', 'is', null)
    .where(({ eb }) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', now)]))
    .execute()
  const usable = new Set(rows.map(({ id }) => id))
  return ids.filter((id) => !usable.has(id))
}

/** Newest first. */
async function listApiKeys(
  scope: Scope,
  { owner, after, limit }: ApiKeyQuery,
): Promise<{ items: ApiKeyRow[]; next?: string }> {
  const position = after === undefined ? undefined : await positionOf(scope, { id: after, owner })
  let query = scope.db
    .selectFrom('api_keys')
    .selectAll()
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
  if (owner !== undefined) query = query.where('owner', '=', toText(owner))
  if (position) {
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('created_at', 'id'), '<', tuple(position.created_at, position.id)),
    )
  }
  const rows = (await query.execute()).map(toApiKey)
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return rows.length > limit && last ? { items, next: last.id } : { items }
}

/** A key of another owner is no position, so that a cursor does not show whether the key exists. */
async function positionOf(
  { db }: Scope,
  { id, owner }: { readonly id: string; readonly owner: string | undefined },
): Promise<Pick<Row, 'created_at' | 'id'>> {
  const query = db.selectFrom('api_keys').select(['created_at', 'id']).where('id', '=', toText(id))
  const row = await (owner === undefined
    ? query
    : query.where('owner', '=', toText(owner))
  ).executeTakeFirst()
  if (row) return row
  throw new SandboxError('invalid_request', 'The cursor `after` names no key: start from the first page.')
}

/** Returns false if the key does not exist or is revoked already. */
async function revokeApiKey(
  { db }: Scope,
  id: string,
  { at, by }: { readonly at: string; readonly by: string },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('api_keys')
    .set({ revoked_at: at, revoked_by: toText(by) })
    .where('id', '=', toText(id))
    .where('revoked_at', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

async function noteApiKeyUse({ db }: Scope, id: string, at: string): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ last_used_at: at })
    .where('id', '=', toText(id))
    .where(({ eb }) => eb.or([eb('last_used_at', 'is', null), eb('last_used_at', '<', at)]))
    .execute()
}

export const apiKeyStore = (reading: Scope, write: Write): ApiKeyStore => ({
  readApiKey: (hash) => readApiKey(reading, hash),
  countApiKeys: () => countApiKeys(reading),
  listApiKeys: (query) => listApiKeys(reading, query),
  listUnusableApiKeys: (ids, now) => listUnusableApiKeys(reading, ids, now),
  noteApiKeyUse: (id, at) => write((scope) => noteApiKeyUse(scope, id, at)),
})

export const apiKeyTransaction = (scope: Scope): ApiKeyTransaction => ({
  insertApiKey: (row) => insertApiKey(scope, row),
  readApiKeyById: (id) => readApiKeyById(scope, id),
  listUsableApiKeys: (of, page) => listUsableApiKeys(scope, of, page),
  revokeApiKey: (id, revocation) => revokeApiKey(scope, id, revocation),
})
