import { type Kysely, sql } from 'kysely'
import type { Tables } from './schema.ts'

export async function createRuns(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('runs')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('task', 'text', (c) => c.notNull())
    .addColumn('workspace_json', 'text', (c) => c.notNull())
    .addColumn('agent_json', 'text', (c) => c.notNull())
    .addColumn('agent_spec_json', 'text', (c) => c.notNull())
    .addColumn('labels_json', 'text', (c) => c.notNull())
    .addColumn('settings_json', 'text', (c) => c.notNull())
    .addColumn('interactive', 'integer', (c) => c.notNull())
    .addColumn('generation', 'integer', (c) => c.notNull())
    .addColumn('sandbox_json', 'text')
    .addColumn('failure_json', 'text')
    .addColumn('outcome_json', 'text')
    .addColumn('policy_version', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('last_sequence', 'integer', (c) => c.notNull())
    .addColumn('host_sequence', 'integer', (c) => c.notNull())
    .addColumn('audit_count', 'integer', (c) => c.notNull())
    .addColumn('audit_mac', 'text', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('started_at', 'text')
    .addColumn('first_event_at', 'text')
    .addColumn('ended_at', 'text')
    .addColumn('checkpoint_at', 'text')
    .execute()
  await db.schema.createIndex('runs_by_time').on('runs').columns(['created_at', 'id']).execute()
  await db.schema
    .createIndex('runs_by_owner')
    .on('runs')
    .columns(['owner', 'kind', 'created_at', 'id'])
    .execute()
  await db.schema.createIndex('runs_by_state').on('runs').columns(['state', 'owner']).execute()
}

export async function createEvents(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('events')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('sequence', 'integer', (c) => c.notNull())
    .addColumn('at', 'text', (c) => c.notNull())
    .addColumn('event_json', 'text', (c) => c.notNull())
    .addColumn('host_generation', 'integer')
    .addColumn('host_sequence', 'integer')
    .addPrimaryKeyConstraint('events_key', ['run_id', 'sequence'])
    .execute()
  await sql`create unique index events_by_host on events (run_id, host_generation, host_sequence)
    where host_sequence is not null`.execute(db)
}
