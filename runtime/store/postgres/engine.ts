import { randomUUID } from 'node:crypto'
import { Kysely, sql } from 'kysely'
import type { Log } from '../../kit/log.ts'
import { type Engine, type OnRemoteEvents, PLUGINS } from '../engine.ts'
import type { Tables } from '../schema.ts'
import type { DatabasePlace } from './client.ts'
import { CHANNEL, listen } from './listener.ts'
import { type PoolLimits, pooledDialect } from './pool.ts'

/** Any fixed number: the key of the advisory lock under which migrations run. */
const MIGRATION_LOCK = 7_205_914_173
/** A separate lock for counting runs, and for reading and changing the queue. */
const ADMISSION_LOCK = 7_205_914_174
/**
 * No statement, lock or forgotten transaction may hold up a run for longer. AgentHost waits 30 s for the release of a call, so locks
 * on a silent connection must be gone well before.
 */
const POOL: PoolLimits = {
  size: 10,
  statementMs: 8_000,
  lockMs: 5_000,
  connectMs: 5_000,
  answerMs: 10_000,
  idleTransactionMs: 10_000,
  name: 'agentweaver',
}
/**
 * Leases are renewed every few seconds and expire a few seconds later. They use a separate connection, so that a
 * renewal waits neither for other queries nor for a connection that stopped responding.
 */
const LEASE_POOL: PoolLimits = {
  size: 1,
  statementMs: 2_000,
  lockMs: 2_000,
  connectMs: 3_000,
  answerMs: 3_000,
  idleTransactionMs: 3_000,
  name: 'agentweaver-lease',
}

/** A migration may build an index on a large table. While it waits for a lock, other statements wait behind it. */
const MIGRATION_POOL: PoolLimits = {
  size: 1,
  statementMs: 1_800_000,
  lockMs: 15_000,
  connectMs: 5_000,
  answerMs: 1_860_000,
  idleTransactionMs: 60_000,
  name: 'agentweaver-migration',
}

/** The engine for deployments of more than one process. */
export async function openPostgres(
  place: DatabasePlace,
  log: Log,
  onRemote: OnRemoteEvents,
): Promise<Engine> {
  const db = new Kysely<Tables>({ dialect: pooledDialect(place, POOL, log), plugins: PLUGINS })
  const leases = new Kysely<Tables>({ dialect: pooledDialect(place, LEASE_POOL, log), plugins: PLUGINS })
  const migrator = new Kysely<Tables>({
    dialect: pooledDialect(place, MIGRATION_POOL, log),
    plugins: PLUGINS,
  })
  const self = randomUUID()
  const listener = listen({ place, log, self, onRemote })
  return {
    kind: 'postgres',
    writer: db,
    reader: db,
    leases,
    migrator,
    nowMs: sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`,
    ddl: { bytes: 'bytea', position: sql`bigint generated always as identity primary key` },
    // The weakest lock that excludes other writers: foreign keys to the run may still be checked.
    lockRows: <Q>(query: Q): Q => (query as { forNoKeyUpdate(): Q }).forNoKeyUpdate(),
    lockFreeRows: (query) => query.forNoKeyUpdate().skipLocked(),
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
      await leases.destroy()
      await migrator.destroy()
      await db.destroy()
    },
  }
}
