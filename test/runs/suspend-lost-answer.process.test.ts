import { expect, it, onTestFinished, vi } from 'vitest'
import { ActiveRun } from '../../runtime/api/runs/drive/active-run.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { LocalProvider } from '../../runtime/sandboxes/local/local-provider.ts'
import { openStore, type StoreLocation } from '../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, follow, shell, startService, tool } from './service-rig.ts'

const STEPS = [
  shell('mkdir build && rm -rf build && echo removed'),
  tool('report_outcome', { outcome: 'succeeded', summary: 'did it' }),
]

/** The first run that is suspended. */
const suspendedIn = async (store: Store) =>
  (await store.listRuns({ owner: 'alice', limit: 10 })).items.find(({ state }) => state === 'suspended')

/**
 * A store that loses the answer of the first commit that suspends a run, and then tries the transaction again, as the real one
 * does on a connection that became silent. Calls `between` before the second attempt.
 */
async function openForgetful(
  location: StoreLocation,
  between: (store: Store, run: RunRow) => Promise<void>,
): Promise<Store> {
  const store = await openStore(location, { log: silentLog })
  let hasLost = false
  return {
    ...store,
    async transaction(work) {
      const result = await store.transaction(work)
      const run = hasLost ? undefined : await suspendedIn(store)
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

it('gives the sandbox back if a service that hands its runs over stops right after a suspension', async () => {
  // Runs are handed over where sandboxes outlive the service. Nobody takes this one over.
  Object.defineProperty(LocalProvider.prototype, 'shared', { value: {}, configurable: true })
  onTestFinished(() => void Reflect.deleteProperty(LocalProvider.prototype, 'shared'))
  const { service, store, aWorkspace, close } = await startService()
  onTestFinished(close)
  const abandoning = vi.spyOn(ActiveRun.prototype, 'abandon')
  const claim = LocalProvider.prototype.claim
  const releasing = vi.fn()
  vi.spyOn(LocalProvider.prototype, 'claim').mockImplementation(async function (
    this: LocalProvider,
    request,
  ) {
    const sandbox = await claim.call(this, request)
    return {
      ...sandbox,
      async release(reason) {
        releasing()
        await until('the run is handed over', () => abandoning.mock.calls.length > 0)
        // Longer than a service needs that does not wait for it.
        await delay(500)
        await sandbox.release(reason)
      },
    }
  })
  onTestFinished(() => void vi.restoreAllMocks())
  const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
  await until('the run waits', async () => (await service.readRun(alice, id)).state === 'waiting')
  const suspending = service.suspend(alice, id)
  await until('the sandbox is being given back', () => releasing.mock.calls.length > 0)

  await service.close()

  expect((await store.readRun(id))?.state).toBe('suspended')
  expect(await store.listClaims(['requested', 'bound'])).toEqual([])
  await suspending
})
