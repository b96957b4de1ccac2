import { type Kysely, sql } from 'kysely'
import { API_KEY_MIGRATION } from './api-key-migration.ts'
import { backfillCalls } from './backfill-calls.ts'
import { CONTRIBUTION_MIGRATION } from './contribution-migration.ts'
import { createBlobs, createCheckpoints } from './create-blobs.ts'
import { createEvents, createRuns } from './create-runs.ts'
import { CREDENTIAL_CHECK_MIGRATION } from './credential-check-migration.ts'
import {
  ALLOWED_HOSTS_MIGRATION,
  EGRESS_MIGRATION,
  RESERVATION_MIGRATION,
  TAKEN_BYTES_MIGRATION,
} from './egress-migration.ts'
import type { Engine } from './engine.ts'
import { PUSH_MIGRATION } from './push-migration.ts'
import { QUEUE_MIGRATION } from './queue-migration.ts'
import { REPLICA_MIGRATION } from './replica-migration.ts'
import { RESTRICTION_MIGRATION } from './restriction-migration.ts'
import type { Tables } from './schema.ts'
import { SETUP_MIGRATION } from './setup-migration.ts'
import { TRACE_MIGRATION } from './trace-migration.ts'
import { USER_CREDENTIAL_MIGRATION } from './user-credential-migration.ts'

export interface Migration {
  readonly version: number
  readonly name: string
  up(db: Kysely<Tables>, ddl: Engine['ddl']): Promise<void>
}

async function createWork(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('turns')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('ordinal', 'integer', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('prompt', 'text', (c) => c.notNull())
    .addColumn('final', 'integer', (c) => c.notNull())
    .addUniqueConstraint('turns_by_run', ['run_id', 'ordinal'])
    .execute()
  await db.schema
    .createTable('commands')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('id', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('request_json', 'text', (c) => c.notNull())
    .addColumn('result_json', 'text')
    .addPrimaryKeyConstraint('commands_key', ['id'])
    .execute()
  await db.schema
    .createTable('calls')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('call_id', 'text', (c) => c.notNull())
    .addColumn('tool', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('decision_json', 'text')
    .addColumn('opened_at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('calls_key', ['run_id', 'call_id'])
    .execute()
}

async function createApprovals(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('approvals')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('request_id', 'text', (c) => c.primaryKey())
    .addColumn('call_id', 'text', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('tool', 'text', (c) => c.notNull())
    .addColumn('binding', 'text', (c) => c.notNull())
    .addColumn('command_hash', 'text')
    .addColumn('redacted', 'integer', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('scope', 'text')
    .addColumn('decided_by', 'text')
    .addColumn('reason', 'text')
    .addColumn('answer', 'text')
    .addColumn('expires_at', 'text', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .execute()
  await db.schema
    .createIndex('approvals_by_run')
    .on('approvals')
    .columns(['run_id', 'state', 'created_at'])
    .execute()
  await db.schema
    .createIndex('approvals_by_expiry')
    .on('approvals')
    .columns(['state', 'expires_at'])
    .execute()
}

async function createClaims(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('claims')
    .addColumn('namespace', 'text', (c) => c.notNull())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('generation', 'integer', (c) => c.notNull())
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('uid', 'text')
    .addColumn('sandbox_uid', 'text')
    .addColumn('pod_uid', 'text')
    .addColumn('handle_json', 'text')
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('claims_key', ['namespace', 'name', 'generation'])
    .execute()
  await db.schema.createIndex('claims_by_state').on('claims').columns(['state', 'created_at']).execute()
}

async function createAudit(db: Kysely<Tables>, ddl: Engine['ddl']): Promise<void> {
  await db.schema
    .createTable('audit_heads')
    .addColumn('chain', 'text', (c) => c.primaryKey())
    .addColumn('count', 'integer', (c) => c.notNull())
    .addColumn('mac', 'text', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('audit')
    .addColumn('position', sql`${ddl.position}`)
    .addColumn('run_id', 'text', (c) => c.notNull())
    .addColumn('sequence', 'integer', (c) => c.notNull())
    .addColumn('at', 'text', (c) => c.notNull())
    .addColumn('tool', 'text', (c) => c.notNull())
    .addColumn('decision', 'text', (c) => c.notNull())
    .addColumn('record', 'text', (c) => c.notNull())
    .addColumn('mac', 'text', (c) => c.notNull())
    .addUniqueConstraint('audit_by_run', ['run_id', 'sequence'])
    .execute()
  await db.schema.createIndex('audit_by_run_position').on('audit').columns(['run_id', 'position']).execute()
  await db.schema.createIndex('audit_by_tool').on('audit').columns(['tool', 'position']).execute()
  await db.schema.createIndex('audit_by_decision').on('audit').columns(['decision', 'position']).execute()
  await db.schema.createIndex('audit_by_time').on('audit').columns(['at']).execute()
}

async function createService(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('api_keys')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('hash', 'text', (c) => c.notNull().unique())
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('role', 'text', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('idempotency_keys')
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('key', 'text', (c) => c.notNull())
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('status', 'integer')
    .addColumn('body', 'text')
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('idempotency_keys_key', ['owner', 'key'])
    .execute()
  await db.schema.createIndex('idempotency_by_time').on('idempotency_keys').columns(['created_at']).execute()
  await db.schema
    .createTable('settings')
    .addColumn('name', 'text', (c) => c.primaryKey())
    .addColumn('value', 'text', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('leases')
    .addColumn('name', 'text', (c) => c.primaryKey())
    .addColumn('holder', 'text', (c) => c.notNull())
    .addColumn('expires_ms', 'bigint', (c) => c.notNull())
    .execute()
}

const addSource: Migration['up'] = (db) =>
  db.schema.alterTable('runs').addColumn('source_json', 'text').execute()

/** Forward only. A migration that was released is never changed: a new one is added. */
export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    name: 'first tables',
    up: async (db, ddl) => {
      await createRuns(db)
      await createEvents(db)
      await createWork(db)
      await createApprovals(db)
      await createClaims(db)
      await createAudit(db, ddl)
      await createBlobs(db, ddl)
      await createService(db)
    },
  },
  {
    version: 2,
    name: 'a sandbox and its pod serve one claim',
    up: async (db) => {
      for (const column of ['sandbox_uid', 'pod_uid']) {
        await sql`create unique index ${sql.raw(`claims_by_${column}`)} on claims (${sql.raw(column)})
          where ${sql.raw(column)} is not null`.execute(db)
      }
    },
  },
  {
    version: 3,
    name: 'who drives a run, and how it is to end',
    up: async (db) => {
      await db.schema.alterTable('runs').addColumn('holder', 'text').execute()
      await db.schema.alterTable('runs').addColumn('ending_json', 'text').execute()
      await db.schema.alterTable('runs').addColumn('used_at', 'text').execute()
      await sql`create index commands_by_run on commands (run_id, state)`.execute(db)
    },
  },
  {
    version: 4,
    name: 'how long a run was active',
    up: async (db) => {
      await db.schema
        .alterTable('runs')
        .addColumn('active_ms', 'bigint', (column) => column.notNull().defaultTo(0))
        .execute()
    },
  },
  {
    version: 5,
    name: 'which events of a sandbox its next driver reads again',
    up: async (db) => {
      await db.schema
        .alterTable('runs')
        .addColumn('host_reread', 'integer', (column) => column.notNull().defaultTo(0))
        .execute()
    },
  },
  {
    version: 6,
    name: 'settings in force per folder',
    up: async (db) => {
      await db.schema
        .createTable('trusted_folders')
        .addColumn('owner', 'text', (c) => c.notNull())
        .addColumn('id', 'text', (c) => c.notNull())
        .addColumn('path', 'text', (c) => c.notNull())
        .addColumn('settings', 'text')
        .addColumn('origin', 'text', (c) => c.notNull())
        .addColumn('trusted_at', 'text', (c) => c.notNull())
        .addPrimaryKeyConstraint('trusted_folders_key', ['owner', 'id'])
        .execute()
      await db.schema
        .createIndex('trusted_folders_by_time')
        .on('trusted_folders')
        .columns(['owner', 'trusted_at', 'id'])
        .execute()
    },
  },
  {
    version: 7,
    name: 'an idempotency key is kept with its answer',
    up: async (db) => {
      // Keys without an answer are of requests that a dead process had begun: nothing of them was promised.
      await db.schema.dropTable('idempotency_keys').execute()
      await db.schema
        .createTable('idempotency_keys')
        .addColumn('owner', 'text', (c) => c.notNull())
        .addColumn('key', 'text', (c) => c.notNull())
        .addColumn('fingerprint', 'text', (c) => c.notNull())
        .addColumn('status', 'integer', (c) => c.notNull())
        .addColumn('body', 'text', (c) => c.notNull())
        .addColumn('created_at', 'text', (c) => c.notNull())
        .addPrimaryKeyConstraint('idempotency_keys_pk', ['owner', 'key'])
        .execute()
      await db.schema
        .createIndex('idempotency_keys_by_time')
        .on('idempotency_keys')
        .columns(['created_at'])
        .execute()
    },
  },
  {
    version: 8,
    name: 'who asked for commands and file writes',
    up: async (db) => {
      await db.schema.alterTable('commands').addColumn('actor', 'text').execute()
      await db.schema.alterTable('calls').addColumn('actor', 'text').execute()
    },
  },
  {
    version: 9,
    name: 'how a turn ended, and what the agent reported in it',
    up: async (db) => {
      await db.schema.alterTable('turns').addColumn('end_json', 'text').execute()
      await db.schema.alterTable('turns').addColumn('outcome_json', 'text').execute()
    },
  },
  {
    version: 10,
    name: 'what a run has used of its budgets',
    up: async (db) => {
      await db.schema.alterTable('runs').addColumn('usage_json', 'text').execute()
    },
  },
  {
    version: 11,
    name: 'states of runs that wait without a sandbox',
    up: async (db) => {
      await db.schema.alterTable('runs').addColumn('waiting_json', 'text').execute()
      await db.schema.alterTable('runs').addColumn('checkpoint_json', 'text').execute()
      await db.schema.alterTable('runs').addColumn('carried_calls_json', 'text').execute()
      await db.schema.alterTable('runs').addColumn('suspend_asked_at', 'text').execute()
      await db.schema
        .alterTable('runs')
        .addColumn('ends_with_service', 'integer', (column) => column.notNull().defaultTo(0))
        .execute()
      await db.schema
        .alterTable('runs')
        .addColumn('losses', 'integer', (column) => column.notNull().defaultTo(0))
        .execute()
      await db.schema.alterTable('turns').addColumn('sent_prompt', 'text').execute()
      await sql`update runs set state = 'waiting_upload' where state = 'awaiting_upload'`.execute(db)
      await sql`update runs set state = 'starting' where state = 'launching'`.execute(db)
      await sql`update runs set state = 'waiting' where state = 'idle'`.execute(db)
    },
  },
  {
    version: 12,
    name: 'a new driver need not read the events of its run',
    up: async (db) => {
      await db.schema
        .alterTable('runs')
        .addColumn('touched_secret', 'integer', (column) => column.notNull().defaultTo(0))
        .execute()
      // What these runs have read is not known here, so they count as runs that have read a secret.
      await sql`update runs set touched_secret = 1 where generation > 0`.execute(db)
      for (const column of ['request_json', 'summary_json'])
        await db.schema.alterTable('calls').addColumn(column, 'text').execute()
      for (const column of ['was_released', 'sequence'])
        await db.schema
          .alterTable('calls')
          .addColumn(column, 'integer', (c) => c.notNull().defaultTo(0))
          .execute()
      await backfillCalls(db)
      await sql`create index calls_by_state on calls (run_id, state)`.execute(db)
      await sql`create index calls_by_event on calls (run_id, was_released, sequence)`.execute(db)
      await sql`create index turns_by_state on turns (run_id, state, ordinal)`.execute(db)
    },
  },
  {
    version: 13,
    name: 'checkpoints whose parts are contents with a digest',
    up: createCheckpoints,
  },
  { version: 14, ...QUEUE_MIGRATION },
  { version: 15, name: 'the run from whose checkpoint a run began', up: addSource },
  { version: 16, ...EGRESS_MIGRATION },
  { version: 17, ...RESTRICTION_MIGRATION },
  { version: 18, ...ALLOWED_HOSTS_MIGRATION },
  { version: 19, ...API_KEY_MIGRATION },
  { version: 20, ...USER_CREDENTIAL_MIGRATION },
  { version: 21, ...CONTRIBUTION_MIGRATION },
  { version: 22, ...RESERVATION_MIGRATION },
  { version: 23, ...SETUP_MIGRATION },
  { version: 24, ...TAKEN_BYTES_MIGRATION },
  { version: 25, ...PUSH_MIGRATION },
  { version: 26, ...REPLICA_MIGRATION },
  { version: 27, ...TRACE_MIGRATION },
  { version: 28, ...CREDENTIAL_CHECK_MIGRATION },
]
