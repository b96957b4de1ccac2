import { type Kysely, sql } from 'kysely'
import type { Engine } from './engine.ts'
import type { Tables } from './schema.ts'

/** The tables of uploads and results, as the first migration creates them. */
export async function createBlobs(db: Kysely<Tables>, ddl: Engine['ddl']): Promise<void> {
  await db.schema
    .createTable('blobs')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('bytes', 'bigint', (c) => c.notNull())
    .addColumn('touched_ms', 'bigint', (c) => c.notNull())
    .execute()
  await sql`create unique index blobs_current on blobs (run_id, name) where state = 'complete'`.execute(db)
  await db.schema.createIndex('blobs_by_run').on('blobs').columns(['run_id', 'name', 'state']).execute()
  await db.schema.createIndex('blobs_by_touch').on('blobs').columns(['state', 'touched_ms']).execute()
  await db.schema
    .createTable('blob_chunks')
    .addColumn('blob_id', 'text', (c) => c.notNull().references('blobs.id').onDelete('cascade'))
    .addColumn('ordinal', 'integer', (c) => c.notNull())
    .addColumn('data', sql.raw(ddl.bytes), (c) => c.notNull())
    .addPrimaryKeyConstraint('blob_chunks_key', ['blob_id', 'ordinal'])
    .execute()
}

/** The tables of checkpoints and of their contents, as a migration creates them. */
export async function createCheckpoints(db: Kysely<Tables>, ddl: Engine['ddl']): Promise<void> {
  await db.schema
    .createTable('contents')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('bytes', 'bigint', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('touched_ms', 'bigint', (c) => c.notNull())
    .execute()
  await sql`create unique index contents_by_digest on contents (owner, sha256) where state = 'complete'`.execute(
    db,
  )
  await db.schema.createIndex('contents_by_touch').on('contents').columns(['state', 'touched_ms']).execute()
  // The embedded store keeps these bytes in files.
  await db.schema
    .createTable('content_chunks')
    .addColumn('content_id', 'text', (c) => c.notNull())
    .addColumn('ordinal', 'integer', (c) => c.notNull())
    .addColumn('data', sql.raw(ddl.bytes), (c) => c.notNull())
    .addPrimaryKeyConstraint('content_chunks_key', ['content_id', 'ordinal'])
    .execute()
  await db.schema
    .createTable('checkpoints')
    .addColumn('run_id', 'text', (c) => c.primaryKey().references('runs.id'))
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('generation', 'integer', (c) => c.notNull())
    .addColumn('host_sequence', 'bigint', (c) => c.notNull())
    .addColumn('policy_version', 'text', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('workspace_kind', 'text')
    .addColumn('workspace_sha256', 'text')
    .addColumn('tree_sha256', 'text')
    .addColumn('session_sha256', 'text')
    .execute()
  await db.schema.createIndex('checkpoints_by_time').on('checkpoints').columns(['created_at']).execute()
  await db.schema
    .createTable('checkpoint_contents')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('content_id', 'text', (c) => c.notNull().references('contents.id'))
    .addPrimaryKeyConstraint('checkpoint_contents_key', ['run_id', 'content_id'])
    .execute()
  await db.schema
    .createIndex('checkpoint_contents_by_content')
    .on('checkpoint_contents')
    .columns(['content_id'])
    .execute()
}
