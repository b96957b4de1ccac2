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
import { delay } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import { Mutex } from './mutex.ts'

const MAX_CACHED_STATEMENTS = 256
/** How long a transaction waits for another process that writes; our own queue up before. */
const BUSY_DEADLINE_MS = 10_000
const SQLITE_BUSY = 5

/** Kysely's dialect over one `node:sqlite` connection, which serves one holder at a time. */
export const sqliteDialect = (database: DatabaseSync): Dialect => ({
  createAdapter: () => new SqliteAdapter(),
  createDriver: () => new SqliteDriver(database),
  createIntrospector: (db) => new SqliteIntrospector(db),
  createQueryCompiler: () => new SqliteQueryCompiler(),
})

class SqliteDriver implements Driver {
  readonly #mutex = new Mutex()
  readonly #database: DatabaseSync
  readonly #connection: SqliteConnection
  #unlock: () => void = () => undefined

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#connection = new SqliteConnection(database)
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    this.#unlock = await this.#mutex.lock()
    return this.#connection
  }

  /** Waits for a writer in another process without blocking this one's event loop. */
  async beginTransaction(): Promise<void> {
    const deadline = Date.now() + BUSY_DEADLINE_MS
    for (;;) {
      try {
        return this.#database.exec('BEGIN IMMEDIATE')
      } catch (error) {
        if (!isBusy(error)) throw error
        if (Date.now() >= deadline) throw keptLocked(error)
        await delay(5)
      }
    }
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

  async destroy(): Promise<void> {
    if (this.#database.isOpen) this.#database.close()
  }
}

const keptLocked = (cause: unknown) =>
  new SandboxError('unavailable', 'Another process keeps the store locked: stop it, or try again.', { cause })

const isBusy = (error: unknown) =>
  error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY

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
