import { Kysely, sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { pooledDialect } from '../../runtime/store/postgres/pool.ts'
import type { Tables } from '../../runtime/store/schema.ts'
import { toStoreFault } from '../../runtime/store/store-fault.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { until } from '../helpers/until.ts'
import { proxyTo } from './silent-proxy.ts'

const offer = await requestPostgres()
const serverUrl = 'url' in offer ? offer.url : ''

const LIMITS = {
  size: 1,
  statementMs: 60_000,
  lockMs: 60_000,
  connectMs: 60_000,
  answerMs: 120_000,
  idleTransactionMs: 60_000,
  name: 'pool-test',
}
const open = (url: string, limits: Partial<typeof LIMITS> = {}) =>
  new Kysely<Tables>({ dialect: pooledDialect({ url }, { ...LIMITS, ...limits }, silentLog) })

const backend = async (db: Kysely<Tables>): Promise<number | undefined> =>
  (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)).rows[0]?.pid

describe.skipIf(!serverUrl)('the connections to PostgreSQL', () => {
  it('survive the end of a connection in the middle of a transaction', async () => {
    const db = open(await createDatabase(serverUrl))
    const admin = open(serverUrl)

    const work = db.transaction().execute(async (tx) => {
      const pid = await backend(tx)
      await sql`select pg_terminate_backend(${pid})`.execute(admin)
      // Between two statements no query waits on the connection, so only the client object receives the error.
      await until('the backend is gone', async () => {
        const { rows } = await sql`select 1 from pg_stat_activity where pid = ${pid}`.execute(admin)
        return rows.length === 0
      })
      return backend(tx)
    })

    await expect(work).rejects.toThrow(/terminat|Connection/i)
    await expect(backend(db)).resolves.toBeGreaterThan(0)
    await Promise.all([db.destroy(), admin.destroy()])
  })

  it('are replaced once a statement on one gets no answer', async () => {
    await using proxy = await proxyTo(await createDatabase(serverUrl))
    const db = open(proxy.url, { answerMs: 3_000 })
    await until('the first connection works', () => backend(db).then(Boolean, () => false))
    const before = proxy.connections()

    const work = db.transaction().execute(async (tx) => {
      await backend(tx)
      proxy.freezeCurrent()
      return backend(tx)
    })

    await expect(work).rejects.toMatchObject({ code: 'unavailable' })
    await until('a new connection works', () => backend(db).then(Boolean, () => false))
    expect(proxy.connections()).toBeGreaterThan(before)
    await db.destroy()
  })

  it('hold no lock for long when they are silent in the middle of a transaction', async () => {
    const url = await createDatabase(serverUrl)
    await using proxy = await proxyTo(url)
    const [silent, other] = [
      open(proxy.url, { idleTransactionMs: 1_000, answerMs: 3_000 }),
      open(url, { lockMs: 30_000 }),
    ]
    await sql`create table held (id int)`.execute(other)
    const lock = sql`lock table held in access exclusive mode`

    const work = silent.transaction().execute(async (tx) => {
      await lock.execute(tx)
      proxy.freezeCurrent()
      return backend(tx)
    })
    await expect(work).rejects.toMatchObject({ code: 'unavailable' })
    // With a timeout of a minute, this fails after 30 s.
    await other.transaction().execute((tx) => lock.execute(tx))

    await Promise.all([silent.destroy(), other.destroy()])
  })

  it('report a transaction that was idle for too long as a fault of the store', async () => {
    const db = open(await createDatabase(serverUrl), { idleTransactionMs: 200 })
    const admin = open(serverUrl)

    const work = db.transaction().execute(async (tx) => {
      const pid = await backend(tx)
      await until('the server ends the transaction', async () => {
        const { rows } = await sql`select 1 from pg_stat_activity where pid = ${pid}`.execute(admin)
        return rows.length === 0
      })
      return backend(tx)
    })

    await expect(work.catch((error: unknown) => Promise.reject(toStoreFault(error)))).rejects.toMatchObject({
      code: 'unavailable',
    })
    await Promise.all([db.destroy(), admin.destroy()])
  })

  it('are replaced together when one of them is silent, so that only one caller waits', async () => {
    await using proxy = await proxyTo(await createDatabase(serverUrl))
    const db = open(proxy.url, { size: 8, answerMs: 3_000 })
    const eight = () => Promise.allSettled(Array.from({ length: 8 }, () => backend(db)))
    await until('eight connections are open', async () => {
      await eight()
      return proxy.connections() >= 8
    })
    proxy.freezeCurrent()

    const first = await backend(db).catch((error: unknown) => error)
    const later = await backend(db)

    expect(first).toMatchObject({ code: 'unavailable' })
    expect(later).toBeGreaterThan(0)
    await db.destroy()
  })
})
