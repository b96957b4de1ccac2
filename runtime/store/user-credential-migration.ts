import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function createUserCredentials(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('user_credentials')
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('target', 'text', (c) => c.notNull())
    .addColumn('user_name', 'text')
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    .addColumn('sealed', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('set_at', 'text', (c) => c.notNull())
    .addColumn('last_used_at', 'text')
    .addPrimaryKeyConstraint('user_credentials_key', ['owner', 'kind', 'target'])
    .execute()
}

export const USER_CREDENTIAL_MIGRATION = { name: 'credentials of users', up: createUserCredentials }
