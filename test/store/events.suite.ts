import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { NewEvent, Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { anEvent, givenRun } from './rows.ts'
import { AWKWARD } from './runs.suite.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

const oneTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)
const append = (store: Store, runId: string, events: readonly NewEvent[]) =>
  store.transaction((tx) => tx.appendEvents(runId, events))

export function testEvents(engine: StoreUnderTest): void {
  describe('events', () => {
    const store = useStore(engine)

    it('numbers the events of a run from 1 and returns them unchanged', async () => {
      const id = await givenRun(store())
      const at = '2026-01-01T00:00:00.000Z'

      const first = await append(store(), id, [{ ...anEvent(AWKWARD), at }, anEvent('two')])
      const second = await append(store(), id, [anEvent('three')])

      expect(first.map(({ sequence }) => sequence)).toEqual([1, 2])
      expect(second.map(({ sequence }) => sequence)).toEqual([3])
      expect(await store().readEvents(id, 0, 10)).toEqual([...first, ...second])
      expect(first[0]).toEqual({ sequence: 1, at, event: anEvent(AWKWARD).event })
      expect((await store().readRun(id))?.lastSequence).toBe(3)
    })

    it('reads a page of events after a sequence', async () => {
      const id = await givenRun(store())
      await append(
        store(),
        id,
        oneTo(10).map((n) => anEvent(`${n}`)),
      )

      const page = await store().readEvents(id, 4, 3)

      expect(page.map(({ sequence }) => sequence)).toEqual([5, 6, 7])
    })

    it('appends more events at once than a statement takes variables', async () => {
      const id = await givenRun(store())

      await append(
        store(),
        id,
        oneTo(6_000).map((n) => anEvent(`${n}`)),
      )

      expect((await store().readEvents(id, 5_999, 10)).map(({ sequence }) => sequence)).toEqual([6_000])
    })

    it('skips a host event that it has, in an earlier batch or in the same one', async () => {
      const id = await givenRun(store())
      const host = (sequence: number, generation = 0) =>
        anEvent(`${generation}.${sequence}`, { generation, sequence })
      await append(store(), id, [host(1), host(2)])

      const again = await append(store(), id, [host(2), host(3), host(3), anEvent('ours'), host(1, 1)])

      expect(again.map(({ sequence, event }) => [sequence, event.data])).toEqual([
        [3, { messageId: 'm', text: '0.3' }],
        [4, { messageId: 'm', text: 'ours' }],
        [5, { messageId: 'm', text: '1.1' }],
      ])
      expect(await store().readRun(id)).toMatchObject({ lastSequence: 5, hostSequence: 3 })
    })

    it('stores each host event once and without gaps, for any repetition (property)', async () => {
      const host = fc.record({
        generation: fc.integer({ min: 0, max: 2 }),
        sequence: fc.integer({ min: 1, max: 6 }),
      })
      const batches = fc.array(fc.array(fc.option(host, { nil: undefined }), { maxLength: 5 }), {
        maxLength: 6,
      })

      await fc.assert(
        fc.asyncProperty(batches, async (sent) => {
          const id = await givenRun(store())
          for (const batch of sent)
            await append(
              store(),
              id,
              batch.map((position) => anEvent('x', position)),
            )

          const hosts = sent.flat().filter((position) => position !== undefined)
          const distinct = new Set(hosts.map(({ generation, sequence }) => `${generation}.${sequence}`))
          const expected = distinct.size + sent.flat().length - hosts.length
          const stored = await store().readEvents(id, 0, 100)
          expect(stored.map(({ sequence }) => sequence)).toEqual(oneTo(expected))
        }),
        { numRuns: 40 },
      )
    })

    it('refuses events of an unknown run', async () => {
      await expect(append(store(), 'run_unknown', [anEvent('x')])).rejects.toMatchObject({
        code: 'not_found',
      })
    })

    it('numbers without a gap when eight writers of two processes append to one run', async () => {
      const location = await engine.freshLocation()
      await using stores = await openTwo(location)
      const id = await givenRun(stores.first)
      const write = async (writer: number) => {
        const own = writer % 2 === 0 ? stores.first : stores.second
        for (let count = 0; count < 10; count += 1) await append(own, id, [anEvent('a'), anEvent('b')])
      }

      await Promise.all(oneTo(8).map(write))

      const stored = await stores.first.readEvents(id, 0, 500)
      expect(stored.map(({ sequence }) => sequence)).toEqual(oneTo(160))
    })

    it('notifies listeners of the run after the commit, and none after they unsubscribe', async () => {
      const [id, other] = [await givenRun(store()), await givenRun(store())]
      const seen: number[] = []
      const leave = store().onEvents(id, () => seen.push(seen.length))
      const strangers: string[] = []
      const leaveOther = store().onEvents(other, () => strangers.push('called'))

      await append(store(), id, [anEvent('one')])
      await until('the listener was called', () => seen.length > 0)
      const calls = seen.length
      leave()
      await append(store(), id, [anEvent('two')])
      leaveOther()

      expect(seen).toHaveLength(calls)
      expect(strangers).toEqual([])
    })

    it('gives listeners the events of a commit as they are read back', async () => {
      const id = await givenRun(store())
      const seen: unknown[] = []
      const leave = store().onEvents(id, (committed) => seen.push(...(committed ?? [])))

      await store().transaction(async (tx) => {
        await tx.appendEvents(id, [anEvent('one \u0000 \ud800'), anEvent('two')])
        await tx.appendEvents(id, [anEvent('three')])
      })

      await until('the listener was called', () => seen.length > 0)
      expect(seen).toHaveLength(3)
      expect(seen).toEqual(await store().readEvents(id, 0, 10))
      leave()
    })

    it('says nothing to listeners of a transaction that fails', async () => {
      const id = await givenRun(store())
      const seen: string[] = []
      const leave = store().onEvents(id, () => seen.push('called'))

      const failing = store().transaction(async (tx) => {
        await tx.appendEvents(id, [anEvent('one')])
        throw new Error('no')
      })

      await expect(failing).rejects.toThrow('no')
      expect(seen).toEqual([])
      leave()
    })

    it('continues when a listener throws', async () => {
      const id = await givenRun(store())
      const seen: string[] = []
      const leaveFirst = store().onEvents(id, () => {
        throw new Error('bad listener')
      })
      const leaveSecond = store().onEvents(id, () => seen.push('called'))

      await append(store(), id, [anEvent('one')])

      await until('the other listener was called', () => seen.length > 0)
      leaveFirst()
      leaveSecond()
    })
  })
}

async function openTwo(location: Parameters<typeof openAt>[0]) {
  const [first, second] = await Promise.all([openAt(location), openAt(location)])
  return {
    first,
    second,
    [Symbol.asyncDispose]: async () => {
      await first.close()
      await second.close()
    },
  }
}
