import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function addTraceparent(db: Kysely<Tables>): Promise<void> {
  await db.schema.alterTable('runs').addColumn('traceparent', 'text').execute()
}

export const TRACE_MIGRATION = { name: 'the trace that a run belongs to', up: addTraceparent }
