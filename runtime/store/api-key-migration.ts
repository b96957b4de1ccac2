import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

const COLUMNS = [
  'name',
  'created_by',
  'created_with',
  'expires_at',
  'revoked_at',
  'revoked_by',
  'last_used_at',
] as const

/** Keys of earlier versions have no expiry and no creator. */
async function describeKeys(db: Kysely<Tables>): Promise<void> {
  for (const column of COLUMNS) await db.schema.alterTable('api_keys').addColumn(column, 'text').execute()
  await db.schema.createIndex('api_keys_by_time').on('api_keys').columns(['created_at', 'id']).execute()
  await db.schema
    .createIndex('api_keys_by_owner')
    .on('api_keys')
    .columns(['owner', 'created_at', 'id'])
    .execute()
  await db.schema.createIndex('api_keys_by_creator').on('api_keys').columns(['created_with']).execute()
}

export const API_KEY_MIGRATION = { name: 'API keys with a name, an expiry and a creator', up: describeKeys }
