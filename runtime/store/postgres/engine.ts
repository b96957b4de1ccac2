import { randomUUID } from 'node:crypto'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import type { Log } from '../../kit/log.ts'
import { type Engine, type OnRemoteEvents, PLUGINS } from '../engine.ts'
import type { Tables } from '../schema.ts'
import { clientFor, type DatabasePlace } from './client.ts'
import { CHANNEL, listen } from './listener.ts'

const INT8_OID = 20
/** Any fixed number: the key of the advisory lock under which migrations run. */
const MIGRATION_LOCK = 7_205_914_173
/** Another one: under it runs are counted and the next one is written. */
const ADMISSION_LOCK = 7_205_914_174
const POOL_SIZE = 10
const CONNECT_TIMEOUT_MS = 10_000
/** No statement, lock or forgotten transaction may hold up a run for longer. */
const STATEMENT_TIMEOUT_MS = 30_000
const LOCK_TIMEOUT_MS = 15_000
const IDLE_TRANSACTION_TIMEOUT_MS = 60_000

/** Counts and byte sizes stay below 2^53, so they need no BigInt. */
const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format),
} as pg.CustomTypesConfig

/** The engine for deployments of more than one process. */
export async function openPostgres(
  place: DatabasePlace,
  log: Log,
  onRemote: OnRemoteEvents,
): Promise<Engine> {
  const pool = new pg.Pool({
    connectionString: place.url,
    Client: clientFor(place),
    max: POOL_SIZE,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
    keepAlive: true,
    application_name: 'agentweaver',
    types,
  })
  pool.on('error', (error) => log.warn('an idle database connection failed', { error }))
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins: PLUGINS })
  const self = randomUUID()
  const listener = listen({ place, log, self, onRemote })
  return {
    kind: 'postgres',
    writer: db,
    reader: db,
    nowMs: sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`,
    ddl: { bytes: 'bytea', position: sql`bigint generated always as identity primary key` },
    // The weakest lock that excludes other writers: foreign keys to the run may still be checked.
    lockRows: <Q>(query: Q): Q => (query as { forNoKeyUpdate(): Q }).forNoKeyUpdate(),
    lockSchema: async (tx) => {
      await sql`select pg_advisory_xact_lock(${sql.lit(MIGRATION_LOCK)})`.execute(tx)
    },
    lockAdmission: async (tx) => {
      await sql`select pg_advisory_xact_lock(${sql.lit(ADMISSION_LOCK)})`.execute(tx)
    },
    announce: async (tx, runIds) => {
      for (const runId of runIds) await sql`select pg_notify(${CHANNEL}, ${`${self} ${runId}`})`.execute(tx)
    },
    close: async () => {
      await listener.close()
      await db.destroy()
    },
  }
}
