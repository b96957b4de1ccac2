import { describe, expect, it } from 'vitest'
import { HOLDER_LEASE } from '../../runtime/store/holder-lease.ts'
import { until } from '../helpers/until.ts'
import { aClaim, aRun, givenRun } from './rows.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

/** Store operations for several processes that drive the runs of one store. */
export function testHolders(engine: StoreUnderTest): void {
  describe('runs and their owners', () => {
    const store = useStore(engine)
    const abandoned = async () => (await store().listAbandonedRuns(['running'], 100)).map(({ id }) => id)

    it('lists the runs without an owner or without a live lease, oldest first', async () => {
      await store().acquireLease(`${HOLDER_LEASE}alive`, 'alive', 60_000)
      await store().acquireLease(`${HOLDER_LEASE}dead`, 'dead', 0)
      const running = { state: 'running' } as const
      // Of two that began in one moment the smaller id is the older one.
      const [nobodys = '', orphan = '', stranger = ''] = Array.from({ length: 3 }, () => aRun().id).toSorted()
      await givenRun(store(), { ...running, id: nobodys })
      await givenRun(store(), { ...running, holder: 'alive' })
      await givenRun(store(), { ...running, id: orphan, holder: 'dead' })
      await givenRun(store(), { ...running, id: stranger, holder: 'never had one' })
      await givenRun(store(), { state: 'succeeded', holder: 'dead' })

      expect(await abandoned()).toEqual([nobodys, orphan, stranger])
      await store().transaction((tx) => tx.changeRun(orphan, { holder: 'alive' }))
      expect(await abandoned()).toEqual([nobodys, stranger])
    })

    it('stores the owner of a run, its requested ending, and the time of its last use', async () => {
      const id = await givenRun(store(), { holder: 'first' })
      const ending = { state: 'cancelled', by: 'ada' } as const
      const usedAt = '2026-01-02T00:00:00.000Z'

      const activeMs = 14_400_001
      expect(await store().readRun(id)).toMatchObject({ activeMs: 0 })
      await store().transaction((tx) => tx.changeRun(id, { holder: 'second', ending, usedAt, activeMs }))

      expect(await store().readRun(id)).toMatchObject({ holder: 'second', ending, usedAt, activeMs })
    })

    it('lets no two transactions count runs and write another one at the same moment', async () => {
      const owner = `counted ${Math.random()}`
      const most = 3
      const admit = () =>
        store().transaction(async (tx) => {
          const taken = await tx.countRuns({ owner, states: ['queued'] })
          if (taken >= most) return false
          await tx.insertRun(aRun({ owner }))
          return true
        })

      const admitted = await Promise.all(Array.from({ length: 8 }, admit))

      expect(admitted.filter(Boolean)).toHaveLength(most)
    })

    it('reads one claim by its key, and the commands that run', async () => {
      const runId = await givenRun(store())
      const claim = aClaim(runId)
      await store().transaction(async (tx) => {
        await tx.upsertClaim(claim)
        for (const id of ['one', 'two'])
          await tx.insertCommand({ id: `${runId}-${id}`, runId, request: {}, state: 'running' })
        await tx.endCommand(`${runId}-one`, {})
      })

      await store().transaction(async (tx) => {
        expect(await tx.readClaim(claim)).toEqual(claim)
        expect(await tx.readClaim({ ...claim, generation: 2 })).toBeUndefined()
        expect((await tx.listRunningCommands(runId)).map(({ id }) => id)).toEqual([`${runId}-two`])
      })
    })

    it('notifies the listeners of a run about a write without an event', async () => {
      const runId = await givenRun(store())
      const told: unknown[] = []
      const leave = store().onEvents(runId, (events) => told.push(events))

      await store().transaction(async (tx) => tx.announce(runId))

      leave()
      expect(told).toEqual([[]])
    })
  })

  it.runIf(engine.engine === 'postgres')(
    'notifies the listeners of other processes too, which then read the store',
    async () => {
      const location = await engine.freshLocation()
      const [here, there] = [await openAt(location), await openAt(location)]
      try {
        const runId = await givenRun(here)
        const told: unknown[] = []
        there.onEvents(runId, (events) => told.push(events))

        await until('it is told', async () => {
          await here.transaction(async (tx) => tx.announce(runId))
          return told.length > 0
        })

        expect(told[0]).toBeUndefined()
      } finally {
        await Promise.all([here.close(), there.close()])
      }
    },
  )
}
