import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { whileHeld } from '../../runtime/api/runs/held-run.ts'
import { Holder } from '../../runtime/api/runs/holder.ts'
import { takeOverRuns } from '../../runtime/api/runs/takeover.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
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

/** A process among others; `driven` is what it took over. */
async function aProcess(store: Store, ttlMs = 60_000) {
  const holder = new Holder()
  let losses = 0
  await holder.hold(store, { ttlMs, log: silentLog, onLost: () => void losses++ })
  onTestFinished(() => holder.release(store))
  const driven: RunRow[] = []
  const active = { launch: (run: RunRow) => void driven.push(run) }
  const deps = { store, holder, log: silentLog }
  type Parts = Parameters<typeof takeOverRuns>
  return {
    holder,
    driven,
    losses: () => losses,
    look: () => takeOverRuns(deps as unknown as Parts[0], active as unknown as Parts[1]),
  }
}

it('leaves the runs of a process that lives to it', async () => {
  const store = await aStore()
  const [one, two] = [await aProcess(store), await aProcess(store)]
  await givenRun(store, { holder: one.holder.id })

  await two.look()

  expect(two.driven).toEqual([])
})

it('takes over the runs of a process that released its lease, and those of nobody', async () => {
  const store = await aStore()
  const [one, two] = [await aProcess(store), await aProcess(store)]
  const ids = [await givenRun(store, { holder: one.holder.id }), await givenRun(store)]
  await one.holder.release(store)

  await two.look()

  expect(two.driven.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
  expect(two.driven.map(({ holder }) => holder)).toEqual([two.holder.id, two.holder.id])
})

it('gives an abandoned run to one of many that look at the same moment', async () => {
  const store = await aStore()
  const id = await givenRun(store, { holder: 'a process that was killed' })
  const processes = await Promise.all(Array.from({ length: 4 }, () => aProcess(store)))

  await Promise.all(processes.map(({ look }) => look()))

  expect(processes.flatMap(({ driven }) => driven).map((run) => run.id)).toEqual([id])
})

it('takes over neither a run that has ended nor one that waits for its upload', async () => {
  const store = await aStore()
  const process = await aProcess(store)
  await givenRun(store, { state: 'succeeded', endedAt: '2026-01-01T00:00:00.000Z' })
  await givenRun(store, { state: 'awaiting_upload' })

  await process.look()

  expect(process.driven).toEqual([])
})

it('lets nobody but the driver of a run write what it does', async () => {
  const store = await aStore()
  const [one, two] = [await aProcess(store), await aProcess(store)]
  const id = await givenRun(store, { holder: one.holder.id })
  const held = { id, holder: one.holder.id }
  await whileHeld(store, held, (tx) => tx.changeRun(id, { state: 'running' }))
  await one.holder.release(store)
  await two.look()

  const late = whileHeld(store, held, (tx) => tx.changeRun(id, { state: 'failed' }))

  await expect(late).rejects.toMatchObject({ code: 'conflict' })
  expect(await store.readRun(id)).toMatchObject({ state: 'running', holder: two.holder.id })
})

it('keeps its name while it can renew its lease, and takes a new one where it could not', async () => {
  const store = await aStore()
  let isAway = false
  const flaky: Store = {
    ...store,
    acquireLease: (name, holder, ttlMs) =>
      isAway ? Promise.reject(new Error('away')) : store.acquireLease(name, holder, ttlMs),
  }
  const one = await aProcess(flaky, 400)
  const first = one.holder.id
  const id = await givenRun(store, { holder: first })
  await new Promise((resolve) => setTimeout(resolve, 900))
  expect([one.losses(), one.holder.id]).toEqual([0, first])

  isAway = true
  await until('the loss is noticed', () => one.losses() > 0)
  isAway = false

  await until('it has a name again', async () =>
    store.acquireLease(`holder:${one.holder.id}`, 'x', 1).then((got) => !got),
  )
  expect(one.holder.id).not.toBe(first)
  await one.look()
  expect(one.driven.map((run) => run.id)).toEqual([id])
})
