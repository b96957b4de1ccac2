import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { messageOf, SandboxError } from '../kit/errors.ts'
import type { Scope } from './engine.ts'
import type { Tables } from './schema.ts'
import { sqliteDialect } from './sqlite/dialect.ts'
import type { Store } from './store.ts'
import { auditReads } from './tables/audit.ts'

export type AuditCopy = Pick<Store, 'readAudit' | 'readAuditHead' | 'nextAuditChain' | 'close'>

const READ_TIMEOUT_MS = 5_000

/** The audit in a SQLite store, which is read and never written: it is evidence, and may be of an older release. */
export function openAuditCopy(file: string): AuditCopy {
  if (!existsSync(file)) throw new SandboxError('not_found', `There is no store at ${file}.`)
  const database = openDatabase(file)
  const db = new Kysely<Tables>({ dialect: sqliteDialect(database, READ_TIMEOUT_MS) })
  return {
    ...auditReads({ db } as Scope),
    close: async () => db.destroy(),
  }
}

function openDatabase(file: string): DatabaseSync {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(file, { readOnly: true, timeout: READ_TIMEOUT_MS })
    database.prepare('select run_id, sequence, record, mac from audit limit 1').all()
    return database
  } catch (error) {
    database?.close()
    throw notReadable(file, error)
  }
}

const notReadable = (file: string, cause: unknown) =>
  new SandboxError(
    'invalid_request',
    `${file} cannot be read as a store: ${messageOf(cause)}. Copy store.db with its store.db-wal, if there is one, into a folder that you can write to.`,
    { cause },
  )
