import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { StateEvent } from '../../../runtime/api/runs/machine/next.ts'
import { transition } from '../../../runtime/api/runs/machine/transition.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { openStore } from '../../../runtime/store/open-store.ts'
import type { RunChange, Store } from '../../../runtime/store/store.ts'
import { givenRun } from '../../store/rows.ts'

async function aStore(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'aw-transition-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return store
}

const apply = (store: Store, id: string, change: { event: StateEvent; facts?: RunChange }) =>
  store.transaction(async (tx) => {
    const run = await tx.readRun(id)
    if (!run) throw new Error('no such run')
    return transition(tx, run, change)
  })

it('stores the next state together with the facts', async () => {
  const store = await aStore()
  const id = await givenRun(store)

  const state = await apply(store, id, { event: { kind: 'picked' }, facts: { generation: 3 } })

  expect(state).toBe('starting')
  expect(await store.readRun(id)).toMatchObject({ state: 'starting', generation: 3 })
})

it('never brings an ended run back, and stores no facts of the refused event', async () => {
  const store = await aStore()
  const id = await givenRun(store, { state: 'cancelled' })

  const late = apply(store, id, { event: { kind: 'no_turn' }, facts: { generation: 3 } })

  await expect(late).rejects.toMatchObject({ code: 'conflict' })
  expect(await store.readRun(id)).toMatchObject({ state: 'cancelled', generation: 0 })
})

it('rejects an event for a run whose state has changed since it was read', async () => {
  const store = await aStore()
  const id = await givenRun(store)
  const stale = await store.readRun(id)
  if (!stale) throw new Error('no such run')
  await apply(store, id, { event: { kind: 'ended', state: 'cancelled' } })

  const late = store.transaction((tx) => transition(tx, stale, { event: { kind: 'picked' } }))

  await expect(late).rejects.toMatchObject({ code: 'conflict' })
  expect(await store.readRun(id)).toMatchObject({ state: 'cancelled' })
})
