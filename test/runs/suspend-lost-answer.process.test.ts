import { expect, it, onTestFinished } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore, type StoreLocation } from '../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, follow, shell, startService, tool } from './service-rig.ts'

const STEPS = [
  shell('mkdir build && rm -rf build && echo removed'),
  tool('report_outcome', { outcome: 'succeeded', summary: 'did it' }),
]

/**
 * A store that loses the answer of the first commit that suspends a run, and then tries the transaction again, as the real one
 * does on a connection that became silent. Calls `between` before the second attempt.
 */
async function openForgetful(
  location: StoreLocation,
  between: (store: Store, run: RunRow) => Promise<void>,
): Promise<Store> {
  const store = await openStore(location, { log: silentLog })
  const suspended = async () =>
    (await store.listRuns({ owner: 'alice', limit: 10 })).items.find(({ state }) => state === 'suspended')
  let hasLost = false
  return {
    ...store,
    async transaction(work) {
      const result = await store.transaction(work)
      const run = hasLost ? undefined : await suspended()
      if (!run) return result
      hasLost = true
      await between(store, run)
      return store.transaction(work)
    },
  }
}

it.each([
  ['still suspended', async () => undefined],
  [
    'started again by another process',
    (store: Store, { id }: RunRow) =>
      store.transaction(async (tx) => {
        await tx.changeRunState(id, { from: 'suspended', to: 'queued' })
        await tx.changeRunState(id, { from: 'queued', to: 'starting' }, { holder: 'another', generation: 2 })
      }),
  ],
] as const)(
  'gives the sandbox back if the answer of the store was lost, and the run is %s',
  async (how, between) => {
    const { service, store, aWorkspace, close } = await startService({}, (at) => openForgetful(at, between))
    onTestFinished(close)
    const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
    await until('the run waits', async () => (await service.readRun(alice, id)).state === 'waiting')

    await service.suspend(alice, id)

    await until('the sandbox is given back', async () => {
      const held = await store.listClaims(['requested', 'bound'])
      return held.every(({ runId }) => runId !== id)
    })
    if (how !== 'still suspended') return
    const [approval] = await store.listApprovals(id)
    const requestId = approval?.requestId ?? ''
    await service.decideShell(alice, id, { outcome: 'approved', requestId, scope: 'once' })
    await follow(service, id)
    expect((await service.readRun(alice, id)).state).toBe('succeeded')
  },
)
