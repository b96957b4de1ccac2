import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { retryWhileBusy } from './busy.ts'
import { Mutex } from './mutex.ts'

const MAX_CACHED_STATEMENTS = 256

/** Kysely's dialect over one `node:sqlite` connection, which serves one holder at a time. */
export const sqliteDialect = (database: DatabaseSync, lockDeadlineMs: number): Dialect => ({
  createAdapter: () => new SqliteAdapter(),
  createDriver: () => new SqliteDriver(database, lockDeadlineMs),
  createIntrospector: (db) => new SqliteIntrospector(db),
  createQueryCompiler: () => new SqliteQueryCompiler(),
})

class SqliteDriver implements Driver {
  readonly #mutex = new Mutex()
  readonly #database: DatabaseSync
  readonly #connection: SqliteConnection
  readonly #lockDeadlineMs: number
  #unlock: () => void = () => undefined
  /** When the current user of the connection requested it. */
  #askedAt = 0

  constructor(database: DatabaseSync, lockDeadlineMs: number) {
    this.#database = database
    this.#lockDeadlineMs = lockDeadlineMs
    this.#connection = new SqliteConnection(database)
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    const askedAt = Date.now()
    this.#unlock = await this.#mutex.lock()
    this.#askedAt = askedAt
    return this.#connection
  }

  /**
   * The time in the queue counts too. Otherwise a lock of another process would delay each transaction by the waits of all
   * transactions before it.
   */
  async beginTransaction(): Promise<void> {
    const queuedMs = Date.now() - this.#askedAt
    await retryWhileBusy(this.#lockDeadlineMs - queuedMs, () => this.#database.exec('BEGIN IMMEDIATE'))
  }

  async commitTransaction(): Promise<void> {
    this.#database.exec('COMMIT')
  }

  /** SQLite has rolled back by itself after some errors (disk full). */
  async rollbackTransaction(): Promise<void> {
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
  }

  async releaseConnection(): Promise<void> {
    this.#unlock()
  }

  /** Lets the transaction under way finish first. */
  async destroy(): Promise<void> {
    const unlock = await this.#mutex.lock()
    if (this.#database.isOpen) this.#database.close()
    unlock()
  }
}

interface Prepared {
  readonly statement: StatementSync
  readonly answersRows: boolean
}

class SqliteConnection implements DatabaseConnection {
  readonly #database: DatabaseSync
  /** Least recently used first. */
  readonly #prepared = new Map<string, Prepared>()

  constructor(database: DatabaseSync) {
    this.#database = database
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const { statement, answersRows } = this.#prepare(sql)
    const values = parameters as readonly SQLInputValue[]
    if (answersRows) return { rows: statement.all(...values) as R[] }
    return { rows: [], numAffectedRows: BigInt(statement.run(...values).changes) }
  }

  // biome-ignore lint/correctness/useYield: Kysely asks for the method; the store pages by keys and never streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('this store does not stream queries')
  }

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql)
    this.#prepared.delete(sql)
    const prepared = known ?? this.#compile(sql)
    this.#prepared.set(sql, prepared)
    const [oldest] = this.#prepared.keys()
    if (this.#prepared.size > MAX_CACHED_STATEMENTS && oldest !== undefined) this.#prepared.delete(oldest)
    return prepared
  }

  #compile(sql: string): Prepared {
    const statement = this.#database.prepare(sql)
    return { statement, answersRows: statement.columns().length > 0 }
  }
}
