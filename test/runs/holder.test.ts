import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { whileHeld } from '../../runtime/api/runs/held-run.ts'
import { Holder } from '../../runtime/api/runs/replicas/holder.ts'
import { takeOverRuns } from '../../runtime/api/runs/replicas/takeover.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { HOLDER_LEASE } from '../../runtime/store/holder-lease.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../runtime/store/store.ts'
import { givenRun } from '../store/rows.ts'

async function aStore(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'aw-holder-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return store
}

/** One of several processes. `driven` contains the runs that it took over. */
async function aProcess(store: Store, ttlMs = 60_000) {
  const holder = new Holder()
  let losses = 0
  await holder.hold(store, { ttlMs, log: silentLog, onLost: () => void losses++ })
  onTestFinished(() => holder.release(store))
  const driven: RunRow[] = []
  const active = { launch: (run: RunRow) => void driven.push(run) }
  const deps = { store, holder, log: silentLog }
  return {
    holder,
    driven,
    losses: () => losses,
    look: () => takeOverRuns(deps, active),
  }
}

it('leaves the runs of a process that lives to it', async () => {
  const store = await aStore()
  const [one, two] = [await aProcess(store), await aProcess(store)]
  await givenRun(store, { state: 'starting', holder: one.holder.id })

  await two.look()

  expect(two.driven).toEqual([])
})

it('takes over runs without an owner, and the runs of a process that released its lease', async () => {
  const store = await aStore()
  const [one, two] = [await aProcess(store), await aProcess(store)]
  const ids = [
    await givenRun(store, { state: 'starting', holder: one.holder.id }),
    await givenRun(store, { state: 'starting' }),
  ]
  await one.holder.release(store)

  await two.look()

  expect(two.driven.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
  expect(two.driven.map(({ holder }) => holder)).toEqual([two.holder.id, two.holder.id])
})

it('gives an abandoned run to one of many that look at the same moment', async () => {
  const store = await aStore()
  const id = await givenRun(store, { state: 'starting', holder: 'a process that was killed' })
  const processes = await Promise.all(Array.from({ length: 4 }, () => aProcess(store)))

  await Promise.all(processes.map(({ look }) => look()))

  expect(processes.flatMap(({ driven }) => driven).map((run) => run.id)).toEqual([id])
})

it('takes over neither a run that has ended nor one that waits for its upload', async () => {
  const store = await aStore()
  const process = await aProcess(store)
  await givenRun(store, { state: 'succeeded', endedAt: '2026-01-01T00:00:00.000Z' })
  await givenRun(store, { state: 'waiting_upload' })

  await process.look()

  expect(process.driven).toEqual([])
})

it('lets only the current owner of a run write its state', async () => {
  const store = await aStore()
  const [one, two] = [await aProcess(store), await aProcess(store)]
  const id = await givenRun(store, { state: 'starting', holder: one.holder.id })
  const held = { id, holder: one.holder.id }
  await whileHeld(store, held, (tx) => tx.changeRunState(id, { from: 'starting', to: 'running' }))
  await one.holder.release(store)
  await two.look()

  const late = whileHeld(store, held, (tx) => tx.changeRunState(id, { from: 'running', to: 'failed' }))

  await expect(late).rejects.toMatchObject({ code: 'conflict' })
  expect(await store.readRun(id)).toMatchObject({ state: 'running', holder: two.holder.id })
})

it('keeps its id while it can renew its lease, and takes a new id after a failed renewal', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const store = await aStore()
  let isAway = false
  const asked: string[] = []
  const flaky: Store = {
    ...store,
    acquireLease: async (name, holder, ttlMs) => {
      if (isAway) throw new Error('away')
      const isHeld = await store.acquireLease(name, holder, ttlMs)
      asked.push(name)
      return isHeld
    },
  }
  const ttlMs = 60_000
  const one = await aProcess(flaky, ttlMs)
  const first = one.holder.id
  const id = await givenRun(store, { state: 'starting', holder: first })
  const abandoned = await givenRun(store, { state: 'starting', holder: 'a process that was killed' })
  for (let renewed = 0; renewed < 10; renewed++) {
    const before = asked.length
    await vi.advanceTimersByTimeAsync(ttlMs / 4)
    await vi.waitUntil(() => asked.length > before, { timeout: 60_000 })
  }
  expect([one.losses(), one.holder.id]).toEqual([0, first])

  isAway = true
  await vi.advanceTimersByTimeAsync(2 * ttlMs)
  expect(one.losses()).toBe(1)
  // Other processes would take over at once what it begins now, because its name has no lease.
  expect(one.holder.isLost).toBe(true)
  await one.look()
  expect(one.driven).toEqual([])
  // As its time to live has it, which the store measures by its own clock.
  await store.releaseLease(`${HOLDER_LEASE}${first}`, first)
  isAway = false

  await vi.advanceTimersByTimeAsync(ttlMs / 4)
  const lease = `${HOLDER_LEASE}${one.holder.id}`
  await vi.waitUntil(() => asked.includes(lease), { timeout: 60_000 })
  expect(await store.acquireLease(lease, 'somebody else', 1)).toBe(false)
  expect(one.holder.id).not.toBe(first)
  await vi.waitUntil(() => !one.holder.isLost, { timeout: 60_000 })
  await one.look()
  expect(one.driven.map((run) => run.id).toSorted()).toEqual([id, abandoned].toSorted())
})
