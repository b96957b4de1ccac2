import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function addPushes(db: Kysely<Tables>): Promise<void> {
  await db.schema.alterTable('runs').addColumn('push_json', 'text').execute()
  await db.schema
    .createTable('pushed_branches')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('repository', 'text', (c) => c.notNull())
    .addColumn('ref', 'text', (c) => c.notNull())
    .addColumn('commit_id', 'text', (c) => c.notNull())
    .addColumn('at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('pushed_branches_key', ['run_id', 'repository', 'ref'])
    .execute()
}

export const PUSH_MIGRATION = { name: 'pushes of people, and branches that runs have pushed', up: addPushes }
