import { describe, expect, it } from 'vitest'
import { givenRun } from './rows.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

const LONG = 600_000

export function testReservations(engine: StoreUnderTest): void {
  describe('what requests to models may use', () => {
    const store = useStore(engine)

    it('is listed for its run until it is taken, once', async () => {
      const [runId, other] = [await givenRun(store()), await givenRun(store())]
      const big = { id: crypto.randomUUID(), runId, tokens: 2 ** 40 }
      const small = { id: crypto.randomUUID(), runId: other, tokens: 1 }
      await store().transaction(async (tx) => {
        for (const row of [big, small]) await tx.insertReservation(row, LONG)
      })

      const { listed, taken, again, left } = await store().transaction(async (tx) => ({
        listed: await tx.listReservations(runId),
        taken: await tx.takeReservation(big.id),
        again: await tx.takeReservation(big.id),
        left: await tx.listReservations(runId),
      }))

      expect({ listed, taken }).toEqual({ listed: [big], taken: big })
      expect({ again, left }).toEqual({ again: undefined, left: [] })
      expect(await store().transaction((tx) => tx.listReservations(other))).toEqual([small])
    })

    it('is lost when its time is over, or with all others of its run', async () => {
      const runId = await givenRun(store())
      const [late, timely] = [0, 1].map((tokens) => ({ id: crypto.randomUUID(), runId, tokens }))
      if (!late || !timely) throw new Error('there are two')
      await store().transaction(async (tx) => {
        await tx.insertReservation(late, 0)
        await tx.insertReservation(timely, LONG)
      })

      const overdue = await store().transaction((tx) => tx.takeLostReservations(runId, 'overdue'))
      const all = await store().transaction((tx) => tx.takeLostReservations(runId, 'all'))

      expect(overdue).toEqual([late])
      expect(all).toEqual([timely])
      expect(await store().transaction((tx) => tx.listReservations(runId))).toEqual([])
    })

    it('is erased with its run', async () => {
      const runId = await givenRun(store())
      await store().transaction((tx) =>
        tx.insertReservation({ id: crypto.randomUUID(), runId, tokens: 5 }, LONG),
      )
      await store().transaction((tx) => tx.eraseRun(runId))
      expect(await store().readRun(runId)).toBeUndefined()
    })
  })
}
