import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { until } from '../helpers/until.ts'
import { proxyTo } from '../store/silent-proxy.ts'
import { alice, aRun, dataOf, follow, shell, startService } from './service-rig.ts'

const postgres = await requestPostgres()
const reason = 'unavailable' in postgres ? postgres.unavailable : undefined

type Service = Awaited<ReturnType<typeof startService>>
type Fault = { readonly begin: () => Promise<void>; readonly end: () => Promise<void> }

/** Longer than the half second after which a relay once gave up. */
const OUTAGE_MS = 3_000

/** Starts a run, makes the store unusable after its first command, and returns the events of the whole run. */
async function runThrough({ service, store, aWorkspace }: Service, fault: Fault, outageMs = OUTAGE_MS) {
  const steps: PlanStep[] = [
    shell('echo one'),
    { kind: 'wait', ms: 1_000 },
    shell('echo two'),
    shell('echo three'),
  ]
  const run = aRun(aWorkspace(), steps)
  const { id } = await service.startRun(alice, run)
  await until('the first command has ended', async () =>
    (await store.readEvents(id, 0, 100)).some(({ event }) => event.type === 'tool.result'),
  )

  await fault.begin()
  await until('the service is not ready', async () => !(await service.ready()).ready)
  await expect(service.startRun(alice, run)).rejects.toMatchObject({ code: 'unavailable' })
  await delay(outageMs)
  await fault.end()

  await until('the service is ready', async () => (await service.ready()).ready)
  const events = await follow(service, id)
  return { id, events }
}

async function expectWhole(
  { service, store }: Service,
  { id, events }: Awaited<ReturnType<typeof runThrough>>,
) {
  const output = dataOf(events, 'command.output').map(({ chunk }) => chunk)
  expect(output).toEqual(['one\n', 'two\n', 'three\n'])
  expect((await service.readRun(alice, id)).state).toBe('succeeded')
  await until('no sandbox is left', async () => (await store.listClaims(['requested', 'bound'])).length === 0)
}

async function onPostgres(url: string) {
  const started = await startService({ DATABASE_URL: url })
  onTestFinished(started.close)
  return started
}

async function onDatabase(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(text)
  await client.end()
}

describe.skipIf(reason !== undefined)(`a run on PostgreSQL${reason ? ` (skipped: ${reason})` : ''}`, () => {
  const aDatabase = async () => {
    if (!('url' in postgres)) throw new Error('no PostgreSQL')
    return createDatabase(postgres.url)
  }

  it('continues after the database refused connections', async () => {
    await using proxy = await proxyTo(await aDatabase())
    const started = await onPostgres(proxy.url)

    await expectWhole(started, await runThrough(started, { begin: proxy.refuse, end: proxy.accept }))
    await started.close()
  })

  it('continues after the database was read-only, as a standby is', async () => {
    const url = await aDatabase()
    const name = new URL(url).pathname.slice(1)
    const started = await onPostgres(url)
    const setReadOnly = async (value: 'on' | 'off') => {
      const change = `alter database "${name}" set default_transaction_read_only = ${value}`
      await onDatabase(url, `set transaction read write; ${change}`)
      // After the commit of the change: a connection that is opened earlier still has the old default.
      const others = `datname = '${name}' and pid <> pg_backend_pid()`
      await onDatabase(url, `select pg_terminate_backend(pid) from pg_stat_activity where ${others}`)
    }

    const fault = { begin: () => setReadOnly('on'), end: () => setReadOnly('off') }
    await expectWhole(started, await runThrough(started, fault))
  })
})

describe('a run on SQLite', () => {
  it('continues after another process kept the store locked for longer than a transaction waits', async () => {
    const started = await startService()
    onTestFinished(started.close)
    if (started.config.store.kind !== 'sqlite') throw new Error('not on SQLite')
    const other = new DatabaseSync(started.config.store.file)
    onTestFinished(() => other.close())

    const fault = {
      begin: async () => other.exec('begin immediate'),
      end: async () => other.exec('rollback'),
    }
    const { id, events } = await runThrough(started, fault)

    // A tool call that waits longer than the sandbox's decision timeout fails, and the agent continues.
    expect(dataOf(events, 'command.output').at(-1)?.chunk).toBe('three\n')
    expect((await started.service.readRun(alice, id)).state).toBe('succeeded')
  })
})
