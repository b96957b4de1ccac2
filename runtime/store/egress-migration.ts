import type { Kysely } from 'kysely'
import type { Tables } from './schema.ts'

async function createEgress(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('egress_networks')
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('generation', 'integer', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('pod_json', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('egress_networks_key', ['run_id', 'generation'])
    .execute()
  await db.schema
    .createTable('egress_proxies')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('last_report', 'bigint', (c) => c.notNull())
    .addColumn('seen_ms', 'bigint', (c) => c.notNull())
    .addColumn('changed_ms', 'bigint', (c) => c.notNull())
    .execute()
}

export const EGRESS_MIGRATION = {
  name: 'networks of sandboxes and replicas of the egress proxy',
  up: createEgress,
}

async function addAllowedHosts(db: Kysely<Tables>): Promise<void> {
  await db.schema.alterTable('runs').addColumn('allowed_hosts_json', 'text').execute()
}

export const ALLOWED_HOSTS_MIGRATION = { name: 'hosts that people allowed to a run', up: addAllowedHosts }

async function createReservations(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable('model_reservations')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('run_id', 'text', (c) => c.notNull().references('runs.id'))
    .addColumn('tokens', 'bigint', (c) => c.notNull())
    .addColumn('until_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('model_reservations_by_run').on('model_reservations').column('run_id').execute()
}

async function addTakenBytes(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .alterTable('runs')
    .addColumn('egress_bytes', 'bigint', (c) => c.notNull().defaultTo(0))
    .execute()
}

export const TAKEN_BYTES_MIGRATION = {
  name: 'the bytes of runs that replicas of the egress proxy have taken',
  up: addTakenBytes,
}

export const RESERVATION_MIGRATION = {
  name: 'what requests to models may use of the budgets of their runs',
  up: createReservations,
}
