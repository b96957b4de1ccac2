import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { RunLimits } from '../../runtime/api/runs/deps.ts'
import { activeTimeOf, CHARGE_MS } from '../../runtime/api/runs/drive/active-time.ts'
import { createWatchdog } from '../../runtime/api/runs/drive/watchdog.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { givenRun } from '../store/rows.ts'

const HOUR_MS = 3_600_000
const LIMITS: RunLimits = {
  maxRuns: 1,
  maxRunsPerOwner: 1,
  maxQueued: 1,
  maxQueuedPerOwner: 1,
  maxLaunches: 1,
  queueTimeoutMs: 1_000_000,
  approvalTtlMs: HOUR_MS,
  idleTimeoutMs: HOUR_MS,
  stallTimeoutMs: 100 * HOUR_MS,
  runTimeoutMs: 4 * HOUR_MS,
  uploadTimeoutMs: HOUR_MS,
  suspendAfterMs: undefined,
  maxSuspendedPerOwner: 100,
  maxStoredBytesPerOwner: 1_000_000,
  checkpointEveryMs: 120_000,
  suspendedRetentionMs: 1_000_000,
}

async function aStore(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'aw-active-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return store
}

const read = async (store: Store, id: string): Promise<RunRow> => {
  const run = await store.readRun(id)
  if (!run) throw new Error(`there is no run ${id}`)
  return run
}
const kept = async (store: Store, id: string) => (await read(store, id)).activeMs

/** Simulates a takeover of the run by another process. */
async function takeOver(store: Store, id: string, holder: string): Promise<RunRow> {
  await store.transaction((tx) => tx.changeRun(id, { holder }))
  return read(store, id)
}

it('continues with the next driver at the value of the last one, after any number of drivers', async () => {
  const store = await aStore()
  const id = await givenRun(store, { holder: 'driver-0' })
  const worked = 7 * 60_000
  let drivers = 0

  for (let used = 0; used <= LIMITS.runTimeoutMs; used += worked, drivers += 1) {
    const before = await kept(store, id)
    const time = activeTimeOf({ store, log: silentLog }, await takeOver(store, id, `driver-${drivers}`))
    expect(time.ms).toBe(before)
    expect(time.ms).toBeGreaterThanOrEqual(used)
    time.add(worked)
    // The simulated driver is killed right after the write, so it never records its end in the row.
    await until('it is written down', async () => (await kept(store, id)) > before)
  }

  expect(await kept(store, id)).toBeGreaterThan(LIMITS.runTimeoutMs)
  expect(await kept(store, id)).toBeLessThanOrEqual(drivers * (worked + CHARGE_MS))
})

it('is written ahead, and not at every tick', async () => {
  const store = await aStore()
  const id = await givenRun(store, { holder: 'first' })
  const changes = vi.spyOn(store, 'transaction')
  const time = activeTimeOf({ store, log: silentLog }, await read(store, id))

  time.add(250)
  await until('the first charge', async () => (await kept(store, id)) === 250 + CHARGE_MS)
  for (let ms = 250; ms + 250 <= CHARGE_MS; ms += 250) time.add(250)

  expect(changes).toHaveBeenCalledTimes(1)
  expect(time.ms).toBeLessThanOrEqual(await kept(store, id))
})

it('is not written by a driver that lost the run', async () => {
  const store = await aStore()
  const id = await givenRun(store, { holder: 'first' })
  const warnings: string[] = []
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) }
  const first = activeTimeOf({ store, log }, await read(store, id))
  const second = activeTimeOf({ store, log: silentLog }, await takeOver(store, id, 'second'))
  second.add(HOUR_MS)
  await until('the second has written', async () => (await kept(store, id)) > HOUR_MS)

  first.add(1_000)
  await until('the first was refused', () => warnings.length === 1)

  expect(await kept(store, id)).toBe(HOUR_MS + CHARGE_MS)
})

it('is retried after the store was unavailable', async () => {
  const store = await aStore()
  const id = await givenRun(store, { holder: 'first' })
  const time = activeTimeOf({ store, log: silentLog }, await read(store, id))
  const away = vi.spyOn(store, 'transaction').mockRejectedValueOnce(new Error('no connection'))

  time.add(1_000)
  await until('it was tried', () => away.mock.results.length === 1)
  await new Promise((resolve) => setImmediate(resolve))
  time.add(1_000)

  await until('it is written after all', async () => (await kept(store, id)) === 2_000 + CHARGE_MS)
})

it('ends a run of a second driver as soon as both together are over the limit', () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const added: number[] = []
  const activeTime = {
    ms: LIMITS.runTimeoutMs - 1_000,
    add(ms: number) {
      added.push(ms)
      this.ms += ms
    },
  }
  let overdue = 0
  const alarms = {
    onExpired: () => undefined,
    onStalled: () => undefined,
    onIdle: () => undefined,
    onQuiet: () => undefined,
    onOverdue: () => {
      overdue += 1
    },
  }
  let waiting = true
  const watchdog = createWatchdog(
    { limits: LIMITS, activeTime },
    () => ({ working: true, waiting, quiet: false }),
    alarms,
  )
  onTestFinished(() => watchdog.stop())

  vi.advanceTimersByTime(10 * 60_000)
  expect(added, 'waiting for a person counts for nothing').toEqual([])
  waiting = false
  vi.advanceTimersByTime(900)
  expect(overdue).toBe(0)
  vi.advanceTimersByTime(500)

  expect(overdue).toBeGreaterThan(0)
})
