import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import type { StoreLocation } from '../../runtime/store/open-store.ts'
import { listen } from '../../runtime/store/postgres/listener.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { until } from '../helpers/until.ts'
import { anEvent, givenRun } from './rows.ts'
import { proxyTo } from './silent-proxy.ts'
import { testStore } from './store.suite.ts'
import { openAt, type StoreUnderTest } from './store-under-test.ts'

const offer = await requestPostgres()
const serverUrl = 'url' in offer ? offer.url : ''
const urlOf = (location: StoreLocation) => (location.kind === 'postgres' ? location.url : '')

async function query(location: StoreLocation, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: urlOf(location) })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

const postgres: StoreUnderTest = {
  engine: 'postgres',
  freshLocation: async () => ({ kind: 'postgres', url: await createDatabase(serverUrl) }),
  count: async (location, table) => {
    const [row] = await query(location, `select count(*) as count from ${table}`)
    return Number(row?.['count'])
  },
  execute: async (location, statement) => void (await query(location, statement)),
}

if ('unavailable' in offer) {
  describe('a store on postgres', () => {
    it.skipIf(!process.env.CI)(`needs a PostgreSQL: ${offer.unavailable}`, () => {
      expect.unreachable('CI must be able to start a PostgreSQL')
    })
  })
} else {
  testStore(postgres)

  describe('a store on postgres, with other processes', () => {
    it('notifies listeners about events that another process committed', async () => {
      const location = await postgres.freshLocation()
      const [here, there] = [await openAt(location), await openAt(location)]
      const runId = await givenRun(here)
      await connectedListeners(location, 2)
      const seen: number[] = []
      here.onEvents(runId, () => seen.push(seen.length))
      const before = seen.length

      await there.transaction((tx) => tx.appendEvents(runId, [anEvent('from there')]))

      await until('the listener was called', () => seen.length > before)
      await here.close()
      await there.close()
    })

    it('listens again after its connection was cut, and reads the missed events', async () => {
      const location = await postgres.freshLocation()
      const [here, there] = [await openAt(location), await openAt(location)]
      const runId = await givenRun(here)
      await connectedListeners(location, 2)
      let found = 0
      here.onEvents(runId, () => {
        void here.readEvents(runId, 0, 10).then((events) => {
          found = events.length
        })
      })

      await query(
        location,
        `select pg_terminate_backend(pid) from pg_stat_activity
         where application_name = 'agentweaver-listen' and datname = current_database()`,
      )
      await there.transaction((tx) => tx.appendEvents(runId, [anEvent('missed')]))

      await until('the event was found', () => found === 1)
      await there.transaction((tx) => tx.appendEvents(runId, [anEvent('heard')]))
      await until('the next event was heard', () => found === 2)
      await here.close()
      await there.close()
    })

    it('notices a connection that went silent, and listens on a new one', async () => {
      const location = await postgres.freshLocation()
      await using proxy = await proxyTo(urlOf(location))
      const looks: (string | undefined)[] = []
      const listener = listen({
        place: { url: proxy.url },
        log: silentLog,
        self: 'here',
        onRemote: (runId) => looks.push(runId),
        heartbeatMs: 500,
        answerMs: 500,
      })
      await until('the listener looked', () => looks.length > 0)

      proxy.freezeCurrent()

      const looksBefore = looks.length
      const connectionsBefore = proxy.connections()
      await until('there was another connection', () => proxy.connections() > connectionsBefore)
      await until('it listens there', () => looks.length > looksBefore)
      await query(location, `select pg_notify('agentweaver_events', 'there run_1')`)
      await until('it was heard', () => looks.includes('run_1'))
      await listener.close()
    })

    it('closes at once although it waits for an answer', async () => {
      const location = await postgres.freshLocation()
      await using proxy = await proxyTo(urlOf(location))
      let looks = 0
      const listener = listen({
        place: { url: proxy.url },
        log: silentLog,
        self: 'here',
        onRemote: () => {
          looks += 1
        },
        // It nearly always waits for an answer, and longer than the deadline of a test.
        heartbeatMs: 1,
        answerMs: 600_000,
      })
      await until('the listener looked', () => looks > 0)

      proxy.freezeCurrent()

      await listener.close()
    })

    it('closes although its connections are silent', async () => {
      const location = await postgres.freshLocation()
      await using proxy = await proxyTo(urlOf(location))
      const store = await openAt({ kind: 'postgres', url: proxy.url })
      await connectedListeners(location, 1)

      proxy.freezeCurrent()

      await store.close()
    })

    it('leaves no connection behind when it is closed', async () => {
      const location = await postgres.freshLocation()
      const store = await openAt(location)

      await store.close()

      // The server ends a backend a moment after its client has left.
      await until('no connection is left', async () => {
        const [row] = await query(
          location,
          `select count(*) as count from pg_stat_activity
           where application_name like 'agentweaver%' and datname = current_database()`,
        )
        return Number(row?.['count']) === 0
      })
    })

    it('fails to open without a server, and keeps no handle that blocks process exit', async () => {
      const nowhere = { kind: 'postgres', url: 'postgres://nobody@127.0.0.1:1/none' } as const

      await expect(openAt(nowhere)).rejects.toThrow('ECONNREFUSED')
    })
  })
}

const connectedListeners = (location: StoreLocation, count: number) =>
  until('the listeners were connected', async () => {
    const [row] = await query(
      location,
      `select count(*) as count from pg_stat_activity
       where application_name = 'agentweaver-listen' and query = 'select 1' and datname = current_database()`,
    )
    return Number(row?.['count']) === count
  })
