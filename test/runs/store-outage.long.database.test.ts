import { execFileSync, spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
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
  await expectReleased({ store })
}

async function expectReleased({ store }: Pick<Service, 'store'>): Promise<void> {
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

  it('continues after the database and its proxy stopped responding', async () => {
    await using proxy = await proxyTo(await aDatabase())
    const started = await onPostgres(proxy.url)

    const fault = { begin: async () => proxy.freeze(), end: async () => proxy.thaw() }
    const { id } = await runThrough(started, fault, 0)

    // A tool call that waits longer than the sandbox's decision timeout fails, and the agent continues.
    expect((await started.service.readRun(alice, id)).state).toBe('succeeded')
    await expectReleased(started)
    await started.close()
  }, 400_000)

  it('continues while its connections are terminated again and again', async () => {
    const url = await aDatabase()
    const started = await onPostgres(url)
    const { service, aWorkspace } = started
    const words = Array.from({ length: 20 }, (_, index) => shell(`echo ${index}`))
    const { id } = await service.startRun(alice, aRun(aWorkspace(), words))
    const others = `datname = '${new URL(url).pathname.slice(1)}' and pid <> pg_backend_pid()`

    let cuts = 0
    const isOver = async () =>
      (await service.readRun(alice, id).catch(() => undefined))?.endedAt !== undefined
    await until('the run has ended', async () => {
      await onDatabase(url, `select pg_terminate_backend(pid) from pg_stat_activity where ${others}`)
      cuts += 1
      await delay(300)
      return isOver()
    })

    expect(cuts).toBeGreaterThan(3)
    expect((await service.readRun(alice, id)).state).toBe('succeeded')
    const output = dataOf(await service.readEvents(alice, id, { after: 0, limit: 1_000 }), 'command.output')
    expect(output.map(({ chunk }) => chunk)).toEqual(words.map((_, index) => `${index}\n`))
    await expectReleased(started)
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

const canMount = spawnSync('unshare', ['--mount', 'true']).status === 0

/** A store on a separate file system, which the test fills. */
async function aFillableStore() {
  const disk = mkdtempSync(join(tmpdir(), 'aw-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', disk])
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', disk])
    rmSync(disk, { recursive: true })
  })
  const started = await startService({}, () =>
    openStore({ kind: 'sqlite', file: join(disk, 'store.db') }, { log: silentLog }),
  )
  onTestFinished(started.close)
  const ballast = join(disk, 'ballast')
  return {
    started,
    fault: { begin: async () => fill(ballast), end: async () => rmSync(ballast) },
  }
}

/** Writes to a file until its disk is full. */
function fill(file: string): void {
  for (const bytes of [65_536, 1]) {
    try {
      for (;;) appendFileSync(file, Buffer.alloc(bytes))
    } catch (error) {
      if (errnoOf(error) !== 'ENOSPC') throw error
    }
  }
}

async function aLockableStore() {
  const started = await startService()
  onTestFinished(started.close)
  if (started.config.store.kind !== 'sqlite') throw new Error('not on SQLite')
  const other = new DatabaseSync(started.config.store.file)
  onTestFinished(() => other.close())
  return {
    started,
    fault: { begin: async () => other.exec('begin immediate'), end: async () => other.exec('rollback') },
  }
}

describe('a run on SQLite', () => {
  it('continues after another process kept the store locked for longer than a transaction waits', async () => {
    const { started, fault } = await aLockableStore()

    const { id, events } = await runThrough(started, fault)

    // A tool call that waits longer than the sandbox's decision timeout fails, and the agent continues.
    expect(dataOf(events, 'command.output').at(-1)?.chunk).toBe('three\n')
    expect((await started.service.readRun(alice, id)).state).toBe('succeeded')
    await expectReleased(started)
  })

  it.skipIf(!canMount)('continues after the disk was full', async () => {
    const { started, fault } = await aFillableStore()

    await expectWhole(started, await runThrough(started, fault))
  })
})

describe('a cancellation while the store cannot be written', () => {
  it('is refused instead of returning the state before it, and ends the run afterwards', async () => {
    const { started, fault } = await aLockableStore()
    const { service, aWorkspace } = started
    const { id } = await service.startRun(alice, aRun(aWorkspace(), [{ kind: 'wait', ms: 600_000 }]))
    await until('the run works', async () => (await service.readRun(alice, id)).state === 'running')
    await fault.begin()

    await expect(service.cancel(alice, id)).rejects.toMatchObject({ code: 'unavailable' })
    await fault.end()

    await until('the run has ended', async () => (await service.readRun(alice, id)).endedAt !== undefined)
    expect((await service.readRun(alice, id)).state).toBe('cancelled')
    await expectReleased(started)
  })
})
