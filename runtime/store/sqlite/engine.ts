import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import { type Engine, PLUGINS } from '../engine.ts'
import type { Tables } from '../schema.ts'
import { retryWhileBusy } from './busy.ts'
import { sqliteDialect } from './dialect.ts'

/** Covers the moments in which a reader must wait: recovery after a crash, and the last writer's leaving. */
const READ_TIMEOUT_MS = 5_000
/**
 * How long a transaction waits if another process keeps the store locked. A backup takes the lock for less. Longer waits
 * are worse for callers than an error that asks to try again.
 */
const LOCK_DEADLINE_MS = 5_000

/** The embedded engine: one connection that writes, one that only reads the last commit. */
export async function openSqlite(file: string, lockDeadlineMs = LOCK_DEADLINE_MS): Promise<Engine> {
  createPrivately(file)
  const writing = new DatabaseSync(file, { timeout: 0, enableForeignKeyConstraints: true })
  const reading = new DatabaseSync(file, { timeout: READ_TIMEOUT_MS })
  try {
    // SQLite does not wait for its own lock timeout here when two processes switch at once.
    await retryWhileBusy(lockDeadlineMs, () => writing.exec('PRAGMA journal_mode = WAL'))
    writing.exec('PRAGMA synchronous = FULL')
    // Deleted data is overwritten, so that erased data is not in the file's free pages.
    writing.exec('PRAGMA secure_delete = ON')
    reading.exec('PRAGMA query_only = 1')
  } catch (error) {
    reading.close()
    writing.close()
    throw error
  }
  const writer = new Kysely<Tables>({ dialect: sqliteDialect(writing, lockDeadlineMs), plugins: PLUGINS })
  const reader = new Kysely<Tables>({ dialect: sqliteDialect(reading, lockDeadlineMs), plugins: PLUGINS })
  return {
    kind: 'sqlite',
    writer,
    reader,
    leases: writer,
    migrator: writer,
    nowMs: sql<number>`cast(unixepoch('subsec') * 1000 as integer)`,
    ddl: { bytes: 'blob', position: sql`integer primary key autoincrement` },
    lockRows: <Q>(query: Q): Q => query,
    lockFreeRows: (query) => query,
    lockSchema: async () => undefined,
    // A writing transaction is the only one there is.
    lockAdmission: async () => undefined,
    announce: async () => undefined,
    close: async () => {
      await reader.destroy()
      await writer.destroy()
    },
  }
}

/** The store holds runs of all owners, so only this account may read it. The log files inherit the file's mode. */
function createPrivately(file: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  closeSync(openSync(file, 'a', 0o600))
  chmodSync(file, 0o600)
}
