import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function createContributions(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('run_contributions')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('person', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('how', 'text', (c) => c.notNull())
    .addColumn('at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('run_contributions_key', ['run_id', 'person', 'key_id'])
    .execute()
}

export const CONTRIBUTION_MIGRATION = { name: 'who contributed to a run', up: createContributions }
