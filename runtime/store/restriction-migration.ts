import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function createRestrictions(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('restrictions')
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('target', 'text', (c) => c.notNull())
    .addColumn('owner', 'text')
    .addColumn('level', 'text', (c) => c.notNull())
    .addColumn('reason', 'text', (c) => c.notNull())
    .addColumn('set_by', 'text', (c) => c.notNull())
    .addColumn('role', 'text', (c) => c.notNull())
    .addColumn('at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('restrictions_key', ['kind', 'target'])
    .execute()
}

export const RESTRICTION_MIGRATION = { name: 'restrictions', up: createRestrictions }
