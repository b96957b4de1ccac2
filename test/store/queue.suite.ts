import { describe, expect, it } from 'vitest'
import type { RunState } from '../../contracts/api.ts'
import { HOLDER_LEASE } from '../../runtime/store/holder-lease.ts'
import type { Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { givenRun } from './rows.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

/** The queue of runs that wait for a sandbox. It follows the states of the runs. */
export function testQueue(engine: StoreUnderTest): void {
  describe('the queue', () => {
    const store = useStore(engine)
    const LANES = [{ lane: 'command', hasRoom: false }] as const
    const clock = async () => (await store().viewQueue({ lane: 'command', underWay: { states: [] } })).nowMs
    /** Returns in a later millisecond, because runs that are queued in the same one have no order. */
    const queue = async (owner: string) => {
      const id = await givenRun(store(), { owner, kind: 'command' })
      const queuedAt = await clock()
      await until('the clock of the store moves on', async () => (await clock()) > queuedAt)
      return id
    }
    const move = (id: string, ...states: RunState[]) => moveIn(store(), id, states)
    /** Waiting runs that compete for a place, of the owners of one test. */
    const headsOf = async (...owners: string[]) =>
      (await store().transaction((tx) => tx.listQueueHeads({ lanes: LANES, limit: 100 })))
        .filter(({ owner }) => owners.includes(owner))
        .map(({ runId }) => runId)
    const positionOf = async (id: string) =>
      (await store().viewQueue({ lane: 'command', underWay: { states: ['running'] } })).positions.get(id)

    it('has the oldest waiting run of each owner first, and the next one when that has left', async () => {
      const [first, second, other] = [await queue('h1'), await queue('h1'), await queue('h2')]

      expect(await headsOf('h1', 'h2')).toEqual([first, other])
      await move(first, 'starting')
      // The owner whose run started moves behind the other one.
      expect(await headsOf('h1', 'h2')).toEqual([other, second])
      await move(second, 'cancelled')
      expect(await headsOf('h1', 'h2')).toEqual([other])
      await move(first, 'cancelled')
      await move(other, 'cancelled')
    })

    it('takes in runs without a place that no living process holds', async () => {
      const location = await engine.freshLocation()
      const own = await openAt(location)
      const run = (change = {}) => givenRun(own, { kind: 'command', ...change })
      const [left, resumed, held, placed] = [
        await run({ owner: 'a', holder: 'a replica that stopped' }),
        await run({ owner: 'b', startedAt: '2026-01-01T00:00:00.000Z' }),
        await run({ owner: 'c', holder: 'a replica that lives' }),
        await run({ owner: 'd' }),
      ]
      await own.acquireLease(`${HOLDER_LEASE}a replica that lives`, 'a replica that lives', 600_000)
      await engine.execute(location, `delete from queue where run_id in ('${left}', '${held}')`)
      await engine.execute(location, `update queue set place = null where run_id = '${resumed}'`)
      const heads = async () =>
        (await own.transaction((tx) => tx.listQueueHeads({ lanes: LANES, limit: 100 }))).map(
          ({ runId }) => runId,
        )
      expect(await heads()).toEqual([placed])

      const taken = await own.transaction((tx) => tx.queueLeftBehind(100))

      expect(taken.toSorted()).toEqual([left, resumed].toSorted())
      expect((await heads()).toSorted()).toEqual([left, resumed, placed].toSorted())
      expect((await own.readRun(left))?.holder).toBeUndefined()
      // A run that has begun waits without a deadline.
      expect(await own.listOverdueInQueue({ afterMs: -60_000, limit: 100 })).not.toContain(resumed)
      expect(await own.transaction((tx) => tx.queueLeftBehind(100))).toEqual([])
      await own.close()
    })

    it('gives a run that is queued again its first place', async () => {
      const [first, second] = [await queue('again'), await queue('again')]

      await move(first, 'starting', 'running', 'suspended', 'queued')

      expect(await headsOf('again')).toEqual([first])
      for (const id of [first, second]) await move(id, 'cancelled')
    })

    it('has positions by turns of the owners, and counts the runs that they have', async () => {
      const busy = await givenRun(store(), { owner: 'p1', kind: 'command', state: 'running' })
      const [a1, a2, b1, b2] = [await queue('p1'), await queue('p1'), await queue('p2'), await queue('p2')]

      const positions = await Promise.all([a1, a2, b1, b2].map(positionOf))

      // The owner p2 has no run yet, so its first run comes before the runs of p1.
      expect(positions).toEqual([2, 4, 1, 3])
      for (const id of [busy, a1, a2, b1, b2]) await move(id, 'cancelled')
    })

    it('lists runs that wait too long for their first sandbox, and no run that continues', async () => {
      const [first, again] = [await queue('late'), await queue('late')]
      await move(again, 'starting', 'suspended', 'queued')

      const overdue = await store().listOverdueInQueue({ afterMs: 0, limit: 100 })

      expect(overdue).toContain(first)
      expect(overdue).not.toContain(again)
      expect(await store().listOverdueInQueue({ afterMs: 600_000, limit: 100 })).not.toContain(first)
      await store().transaction((tx) => tx.expireInQueue(again))
      expect(await store().listOverdueInQueue({ afterMs: 600_000, limit: 100 })).toContain(again)
      for (const id of [first, again]) await move(id, 'cancelled')
    })

    it('keeps one head per owner while many transactions change it at the same time', async () => {
      const ids = await Promise.all(Array.from({ length: 12 }, () => queue('many')))

      await Promise.all(
        ids.map((id, index) =>
          index % 2 === 0 ? move(id, 'starting', 'pending_capacity') : move(id, 'cancelled'),
        ),
      )

      expect(await headsOf('many')).toHaveLength(1)
      for (let left = 6; left > 0; left -= 1) {
        const [head = ''] = await headsOf('many')
        await move(head, 'cancelled')
      }
      expect(await headsOf('many')).toEqual([])
    })
  })
}

async function moveIn(store: Store, id: string, states: readonly RunState[]): Promise<void> {
  for (const to of states) {
    await store.transaction(async (tx) => {
      const run = await tx.readRun(id)
      if (run) await tx.changeRunState(id, { from: run.state, to })
    })
  }
}
