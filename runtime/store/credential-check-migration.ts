import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function createCredentialChecks(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('credential_checks')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('credential_json', 'text', (c) => c.notNull())
    .addColumn('plan_json', 'text', (c) => c.notNull())
    .addColumn('until_ms', 'bigint', (c) => c.notNull())
    .addColumn('is_claimed', 'integer', (c) => c.notNull())
    .addColumn('verdict_json', 'text')
    .execute()
  await db.schema.createIndex('credential_checks_by_end').on('credential_checks').column('until_ms').execute()
}

export const CREDENTIAL_CHECK_MIGRATION = {
  name: 'checks of credentials by the egress proxy',
  up: createCredentialChecks,
}
