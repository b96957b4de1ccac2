import { mkdtempSync, rmSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import { afterAll, describe, expect, it } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { EventListeners } from '../../runtime/store/event-listeners.ts'
import type { StoreLocation } from '../../runtime/store/open-store.ts'
import { createSqlStore } from '../../runtime/store/sql-store.ts'
import { openSqlite } from '../../runtime/store/sqlite/engine.ts'
import { until } from '../helpers/until.ts'
import { givenRun } from './rows.ts'
import { testStore } from './store.suite.ts'
import { openAt, type StoreUnderTest } from './store-under-test.ts'

const folder = mkdtempSync(join(tmpdir(), 'aw-store-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
const freshFile = () => {
  files += 1
  return join(folder, `${files}`, 'store.db')
}
const fileOf = (location: StoreLocation) => (location.kind === 'sqlite' ? location.file : '')

const sqlite: StoreUnderTest = {
  engine: 'sqlite',
  freshLocation: async () => ({ kind: 'sqlite', file: freshFile() }),
  count: async (location, table) => {
    const database = new DatabaseSync(fileOf(location), { readOnly: true })
    const row = database.prepare(`select count(*) as count from ${table}`).get()
    database.close()
    return Number(row?.['count'])
  },
  execute: async (location, statement) => {
    const database = new DatabaseSync(fileOf(location))
    database.exec(statement)
    database.close()
  },
}

testStore(sqlite)

describe('the embedded store', () => {
  it('is readable by its account alone, with its log files, even if the file was open to others', async () => {
    const file = freshFile()
    const store = await openAt({ kind: 'sqlite', file })
    await givenRun(store)

    const modes = await Promise.all(
      [file, `${file}-wal`, `${file}-shm`, join(file, '..')].map(
        async (path) => (await stat(path)).mode & 0o777,
      ),
    )

    expect(modes.map((mode) => mode.toString(8))).toEqual(['600', '600', '600', '700'])
    await store.close()
  })

  it('writes ahead, waits for the disk on every commit and checks references', async () => {
    const engine = await openSqlite(freshFile())
    const pragma = async (name: string) => (await sql`pragma ${sql.raw(name)}`.execute(engine.writer)).rows

    expect(await pragma('journal_mode')).toEqual([{ journal_mode: 'wal' }])
    expect(await pragma('synchronous')).toEqual([{ synchronous: 2 }])
    expect(await pragma('foreign_keys')).toEqual([{ foreign_keys: 1 }])
    await engine.close()
  })

  it('fails writes with unavailable while another process holds the lock, still reads, and recovers', async () => {
    const file = freshFile()
    const store = await openAt({ kind: 'sqlite', file })
    const impatient = createSqlStore(await openSqlite(file, 100), new EventListeners(silentLog), {
      log: silentLog,
    })
    const intruder = new DatabaseSync(file)
    intruder.exec('begin immediate')

    const write = impatient.writeSetting('a', 'b')
    const readWhileLocked = await impatient.readSetting('a')

    expect(readWhileLocked).toBeUndefined()
    await expect(write).rejects.toMatchObject({ code: 'unavailable' })
    const patient = store.writeSetting('a', 'c')
    intruder.exec('rollback')
    await patient
    expect(await impatient.readSetting('a')).toBe('c')
    intruder.close()
    await impatient.close()
    await store.close()
  })

  it('does not delay a queued write by the waits of the writes before it', async () => {
    const file = freshFile()
    await (await openAt({ kind: 'sqlite', file })).close()
    const store = createSqlStore(await openSqlite(file, 2_000), new EventListeners(silentLog), {
      log: silentLog,
    })
    const intruder = new DatabaseSync(file)
    intruder.exec('begin immediate')
    let refused = 0

    const writes = Array.from({ length: 100 }, (_, index) =>
      store.writeSetting(`${index}`, 'x').catch(() => {
        refused += 1
      }),
    )

    // One wait after the other would take 200 s.
    await until('all are refused', () => refused === writes.length)
    intruder.exec('rollback')
    await store.writeSetting('after', 'x')
    intruder.close()
    await store.close()
  })

  it('refuses a store of a newer release, saying what to do', async () => {
    const file = freshFile()
    await (await openAt({ kind: 'sqlite', file })).close()
    const database = new DatabaseSync(file)
    database.exec(`insert into schema_migrations values (9999, 'future', '')`)
    database.close()

    await expect(openAt({ kind: 'sqlite', file })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('newer release'),
    })
  })

  it('deletes an upload whose process died an hour ago, and no upload in progress', async () => {
    const location = await sqlite.freshLocation()
    const store = await openAt(location)
    const runId = await givenRun(store)
    await store.close()
    const database = new DatabaseSync(fileOf(location))
    const insert = database.prepare(
      `insert into blobs values (?, '${runId}', 'session', 'writing', '', 0, ?)`,
    )
    insert.run('dead', Date.now() - 3_700_000)
    insert.run('alive', Date.now() - 3_500_000)
    database.exec(`insert into blob_chunks values ('dead', 0, x'00'), ('alive', 0, x'00')`)
    database.close()

    await (await openAt(location)).close()

    expect(await sqlite.count(location, 'blobs')).toBe(1)
    expect(await sqlite.count(location, 'blob_chunks')).toBe(1)
  })

  it('detects content that was changed on disk', async () => {
    const location = await sqlite.freshLocation()
    const store = await openAt(location)
    const runId = await givenRun(store)
    await store.writeBlob(
      { runId, name: 'session', maxBytes: 100 },
      (async function* () {
        yield new Uint8Array([1, 2, 3])
      })(),
    )
    const database = new DatabaseSync(fileOf(location))
    database.exec(`update blob_chunks set data = x'010204'`)
    database.close()

    const blob = await store.readBlob(runId, 'session')
    const reading = (async () => {
      for await (const _ of blob?.chunks ?? []);
    })()

    await expect(reading).rejects.toMatchObject({ code: 'internal' })
    await store.close()
  })
})
