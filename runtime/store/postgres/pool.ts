import { PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { clientFor, type DatabasePlace } from './client.ts'

export interface PoolLimits {
  readonly size: number
  /** The server cancels a statement after this time. Below `answerMs`, so that a slow statement keeps its connection. */
  readonly statementMs: number
  readonly lockMs: number
  /** How long to wait for a connection. One that is opened while the server is silent stays silent afterwards. */
  readonly connectMs: number
  /** How long to wait for the result of a statement before the connection is discarded. */
  readonly answerMs: number
  /**
   * The server ends a transaction that sends no statement for so long, and releases its locks. The server does not notice by itself
   * that a connection is silent.
   */
  readonly idleTransactionMs: number
  /** Shown by the server in `pg_stat_activity`. */
  readonly name: string
}

const INT8_OID = 20

/** Counts and byte sizes stay below 2^53, so they need no BigInt. */
const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format),
} as pg.CustomTypesConfig

/** A Kysely dialect over a pool of connections that survives terminated and silent ones. */
export function pooledDialect(place: DatabasePlace, limits: PoolLimits, log: Log): PostgresDialect {
  const pool = new pg.Pool({
    connectionString: place.url,
    Client: clientFor(place),
    max: limits.size,
    connectionTimeoutMillis: limits.connectMs,
    statement_timeout: limits.statementMs,
    lock_timeout: limits.lockMs,
    idle_in_transaction_session_timeout: limits.idleTransactionMs,
    keepAlive: true,
    application_name: limits.name,
    types,
  })
  pool.on('error', (error) => log.warn('an idle database connection failed', { error }))
  // The pool listens on idle connections only. On one in use, `error` without a listener would end the process; the
  // query that uses it rejects with the same error.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return new PostgresDialect({ pool: answeringPool(pool, limits.answerMs) })
}

/**
 * A pool that discards a connection if a statement on it gets no response. A failover or a middlebox can leave a
 * connection open and silent for ever, and the server's own timeouts never arrive on such a connection.
 */
function answeringPool(pool: pg.Pool, answerMs: number): PostgresPool {
  const openedAt = new WeakMap<pg.PoolClient, number>()
  pool.on('connect', (client) => openedAt.set(client, performance.now()))
  let silentSince = Number.NEGATIVE_INFINITY
  /** A connection that is older than the last silence may be silent too. Each would cost a caller the whole wait. */
  const connect = async (): Promise<pg.PoolClient> => {
    for (;;) {
      const client = await pool.connect()
      if ((openedAt.get(client) ?? 0) > silentSince) return client
      client.release(true)
    }
  }
  const onSilence = () => {
    silentSince = performance.now()
  }
  return {
    connect: async () => {
      const client = new AnsweringClient(await connect(), answerMs, onSilence)
      return {
        // Kysely also declares a form for cursors, but uses it only if a cursor is configured.
        query: ((text: string, values?: readonly unknown[]): unknown =>
          client.query(text, values)) as PostgresPoolClient['query'],
        release: () => client.release(),
      }
    },
    end: () => pool.end(),
  }
}

class AnsweringClient {
  readonly #client: pg.PoolClient
  readonly #answerMs: number
  readonly #onSilence: () => void
  #silence: SandboxError | undefined

  constructor(client: pg.PoolClient, answerMs: number, onSilence: () => void) {
    this.#client = client
    this.#answerMs = answerMs
    this.#onSilence = onSilence
  }

  async query(text: string, values: readonly unknown[] = []): Promise<pg.QueryResult> {
    if (this.#silence) throw this.#silence
    const { promise: unanswered, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => {
      this.#silence = new SandboxError(
        'unavailable',
        `the database did not respond within ${this.#answerMs} ms`,
      )
      this.#onSilence()
      reject(this.#silence)
    }, this.#answerMs)
    const answer = this.#client.query(text, [...values])
    // The query may fail long after its caller stopped waiting.
    answer.catch(() => undefined)
    try {
      return await Promise.race([answer, unanswered])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Gives the connection back to the pool, or closes it if it went silent. */
  release(): void {
    this.#client.release(this.#silence)
  }
}
