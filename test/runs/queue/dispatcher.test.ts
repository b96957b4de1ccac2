import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { RunDeps } from '../../../runtime/api/runs/deps.ts'
import type { ActiveRuns } from '../../../runtime/api/runs/drive/active-runs.ts'
import { Dispatcher } from '../../../runtime/api/runs/queue/dispatcher.ts'
import { SandboxError } from '../../../runtime/kit/errors.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { openStore } from '../../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../../runtime/store/store.ts'
import { noRestrictions } from '../../helpers/no-restrictions.ts'
import { until } from '../../helpers/until.ts'
import { givenRun } from '../../store/rows.ts'

/** A dispatcher whose launches take as long as the test decides. */
async function aDispatcher(
  wrap: (store: Store) => Store = (store) => store,
  holder: { readonly id: string; isLost?: boolean } = { id: 'me' },
) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-dispatch-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  const launched = new Map<string, () => void>()
  const active = {
    launch(run: RunRow) {
      const { promise, resolve } = Promise.withResolvers<void>()
      launched.set(run.id, resolve)
      return { obtained: promise }
    },
    get: (id: string) => (launched.has(id) ? {} : undefined),
  }
  const deps = {
    store: wrap(store),
    provider: { namespace: 'local', draft: (name: string) => ({ name }) },
    keys: { keyId: 'k' },
    clock: () => new Date(),
    limits: { maxRuns: 10, maxRunsPerOwner: 10, maxLaunches: 2 },
    holder,
    restrictions: noRestrictions(),
    log: silentLog,
  } as unknown as RunDeps
  const dispatcher = new Dispatcher(deps, active as unknown as ActiveRuns)
  onTestFinished(async () => {
    await dispatcher.close()
    await store.close()
    rmSync(folder, { recursive: true })
  })
  return { store, dispatcher, launched }
}

describe('the dispatcher', () => {
  it('launches no more runs at a time than the limit, and the next one when a sandbox serves', async () => {
    const { store, dispatcher, launched } = await aDispatcher()
    for (let index = 0; index < 4; index += 1) await givenRun(store)

    dispatcher.wake()
    await until('two are launched', () => launched.size === 2)
    expect(await store.countRuns({ states: ['queued'] })).toBe(2)
    for (const serves of launched.values()) serves()

    await until('the others are launched', () => launched.size === 4)
  })

  it('drives a run whose pick was committed although the answer was lost', async () => {
    let isLost = false
    const losing = (store: Store): Store => ({
      ...store,
      async transaction(work) {
        const answer = await store.transaction(work)
        if (isLost) return answer
        isLost = true
        throw new SandboxError('unavailable', 'the connection broke after the commit')
      },
    })
    const { store, dispatcher, launched } = await aDispatcher(losing)
    const id = await givenRun(store)

    dispatcher.wake()
    await until('the pick is committed', async () => (await store.readRun(id))?.state === 'starting')
    await until('the run is driven', () => {
      dispatcher.wake()
      return launched.has(id)
    })
  })

  it('starts nothing while the name of its process has no lease', async () => {
    const holder = { id: 'me', isLost: true }
    const { store, dispatcher, launched } = await aDispatcher(undefined, holder)
    const id = await givenRun(store)

    dispatcher.wake()
    await nextTurn()
    dispatcher.wake()
    await until('it has looked', async () => (await store.countRuns({ states: ['queued'] })) === 1)
    expect(launched.size).toBe(0)
    holder.isLost = false
    dispatcher.wake()

    await until('the run is launched', () => launched.has(id))
  })

  it('starts nothing after it is closed', async () => {
    const { store, dispatcher, launched } = await aDispatcher()
    await dispatcher.close()
    await givenRun(store)

    dispatcher.wake()
    await dispatcher.close()

    expect(launched.size).toBe(0)
    expect(await store.countRuns({ states: ['queued'] })).toBe(1)
  })
})
