import { expect, it, onTestFinished } from 'vitest'
import type { Run } from '../../../contracts/api.ts'
import type { Caller } from '../../../runtime/api/runs/service.ts'
import { until } from '../../helpers/until.ts'
import { alice, aRun, startService } from '../service-rig.ts'

/** Twice as many as may run at once. */
const RUNS = 16

it('completes all runs that are started at once, and never launches more sandboxes at a time than the limit', {
  timeout: 900_000,
}, async () => {
  const { service, store, aWorkspace, close } = await startService({
    AGENTWEAVER_MAX_RUNS: '8',
    AGENTWEAVER_MAX_RUNS_PER_OWNER: '8',
    AGENTWEAVER_MAX_LAUNCHES: '2',
  })
  onTestFinished(close)
  const path = aWorkspace()
  let most = 0
  const starts = await Promise.all(
    Array.from({ length: RUNS }, () => service.startRun(alice, aRun(path, []))),
  )

  await until(
    'all have ended',
    async () => {
      most = Math.max(most, await store.countRuns({ states: ['starting'] }))
      return (await store.countRuns({ states: ['succeeded', 'failed', 'cancelled'] })) === RUNS
    },
    800_000,
  )

  const failures = await Promise.all(starts.map(async ({ id }) => (await store.readRun(id))?.failure))
  expect(failures.filter(Boolean)).toEqual([])
  expect(await store.countRuns({ states: ['succeeded'] })).toBe(RUNS)
  expect(most).toBeGreaterThan(0)
  expect(most).toBeLessThanOrEqual(2)
})

it('starts the run of another owner before many earlier runs of one owner', async () => {
  const { service, aWorkspace, close } = await startService({ AGENTWEAVER_MAX_RUNS: '1' })
  onTestFinished(close)
  const start = (caller: Caller): Promise<Run> => service.startRun(caller, aRun(aWorkspace(), []))
  const many = await Promise.all(Array.from({ length: 12 }, () => start(alice)))
  const bob = { owner: 'bob', role: 'user' } as const
  const { id } = await start(bob)

  await until(
    'the run of the other owner has ended',
    async () => (await service.readRun(bob, id)).endedAt !== undefined,
  )

  const states = await Promise.all(many.map(async (run) => (await service.readRun(alice, run.id)).state))
  expect(states.filter((state) => state === 'queued').length).toBeGreaterThan(6)
})
