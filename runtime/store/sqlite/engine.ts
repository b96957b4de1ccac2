import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'
import type { Tables } from '../schema.ts'
import { sqliteDialect } from './dialect.ts'

/** Covers the moments in which SQLite itself must wait: recovery and the switch to the write-ahead log. */
const BUSY_TIMEOUT_MS = 5_000

/** The embedded engine: one connection that writes, one that only reads the last commit. */
export function openSqlite(file: string): Engine {
  createPrivately(file)
  const writing = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS, enableForeignKeyConstraints: true })
  writing.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  // From here on a writer elsewhere is waited for in `beginTransaction`, not inside SQLite's blocking call.
  writing.exec('PRAGMA busy_timeout = 0')
  const reading = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS, readOnly: true })
  const writer = new Kysely<Tables>({ dialect: sqliteDialect(writing) })
  const reader = new Kysely<Tables>({ dialect: sqliteDialect(reading) })
  return {
    kind: 'sqlite',
    writer,
    reader,
    nowMs: sql<number>`cast(unixepoch('subsec') * 1000 as integer)`,
    ddl: { bytes: 'blob', position: sql`integer primary key autoincrement` },
    lockRows: <Q>(query: Q): Q => query,
    lockSchema: async () => undefined,
    announce: async () => undefined,
    close: async () => {
      await reader.destroy()
      await writer.destroy()
    },
  }
}

/** The store holds runs of all owners: only this account may read it. The log files take the file's mode. */
function createPrivately(file: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  closeSync(openSync(file, 'a', 0o600))
  chmodSync(file, 0o600)
}
