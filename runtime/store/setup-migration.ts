import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function addSetup(db: Kysely<Tables>): Promise<void> {
  await db.schema.alterTable('runs').addColumn('setup_json', 'text').execute()
}

export const SETUP_MIGRATION = { name: 'the setup commands of a run', up: addSetup }
