import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function createReplicas(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('replicas')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('version', 'text', (c) => c.notNull())
    .addColumn('started_ms', 'bigint', (c) => c.notNull())
    .addColumn('seen_ms', 'bigint', (c) => c.notNull())
    .execute()
}

export const REPLICA_MIGRATION = { name: 'heartbeats of replicas', up: createReplicas }
