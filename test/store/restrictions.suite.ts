import { describe, expect, it } from 'vitest'
import type { RestrictionRow } from '../../runtime/store/service-rows.ts'
import { givenRun } from './rows.ts'
import { AWKWARD } from './runs.suite.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

const aRestriction = (over: Partial<RestrictionRow> = {}): RestrictionRow => ({
  scope: { kind: 'owner', owner: 'ada' },
  owner: 'ada',
  level: 'frozen',
  reason: 'an incident',
  by: 'root',
  role: 'operator',
  at: '2026-01-01T00:00:00.000Z',
  ...over,
})

export function testRestrictions(engine: StoreUnderTest): void {
  describe('restrictions', () => {
    const store = useStore(engine)
    const lanes = [{ lane: 'command', hasRoom: true }] as const

    it('keeps one per scope, oldest first', async () => {
      const all = aRestriction({ scope: { kind: 'all' }, at: '2026-01-02T00:00:00.000Z' })
      const { owner: _none, ...ofAll } = all
      await store().transaction(async (tx) => {
        await tx.writeRestriction(ofAll)
        await tx.writeRestriction(aRestriction())
        await tx.writeRestriction(aRestriction({ level: 'normal', reason: AWKWARD, by: AWKWARD }))
        await tx.writeRestriction(aRestriction({ scope: { kind: 'run', id: 'gone' } }))
        await tx.deleteRestriction({ kind: 'run', id: 'gone' })
      })

      expect(await store().listRestrictions()).toEqual([
        aRestriction({ level: 'normal', reason: AWKWARD, by: AWKWARD }),
        ofAll,
      ])
    })

    it('gives the turn of a run that may not start to the next run of its owner', async () => {
      const queue = (owner: string) => givenRun(store(), { owner, kind: 'command' })
      const [first, second, other] = [await queue('r1'), await queue('r1'), await queue('r2')]
      const heads = (owners: string[], runIds: string[]) =>
        store().transaction(async (tx) => {
          const found = await tx.listQueueHeads({ lanes, limit: 50, without: { owners, runIds } })
          return found.map(({ runId }) => runId).filter((id) => [first, second, other].includes(id))
        })

      expect(await heads([], [])).toEqual([first, other])
      expect(await heads([], [first])).toEqual([other, second])
      expect(await heads(['r1'], [])).toEqual([other])
      expect(await heads(['r1', 'r2'], [])).toEqual([])
    })

    it('starts the deadline in the queue again for runs that may start again', async () => {
      const [frozen, other] = [
        await givenRun(store(), { owner: 'd1', kind: 'command' }),
        await givenRun(store(), { owner: 'd2', kind: 'command' }),
      ]
      const overdue = async (without = { all: false, owners: [] as string[], runIds: [] as string[] }) => {
        const ids = await store().listOverdueInQueue({ afterMs: 0, limit: 200, without })
        return ids.filter((id) => id === frozen || id === other)
      }
      await store().transaction((tx) => tx.expireInQueue(other))

      expect(await overdue({ all: true, owners: [], runIds: [] })).toEqual([other])
      expect(await overdue({ all: false, owners: ['d1'], runIds: [] })).toEqual([other])
      expect(await overdue({ all: false, owners: [], runIds: [frozen] })).toEqual([other])
      expect(await overdue()).toEqual([other, frozen])
    })
  })
}
