import { describe, expect, it } from 'vitest'
import type { RunChange } from '../../runtime/store/store.ts'
import { anEvent, aRun, givenRun } from './rows.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

/**
 * Text that a database may reject or change: NUL, a lone surrogate, an escape sequence of our format, an astral
 * character.
 */
export const AWKWARD = 'a\0b \ud800 \\u0000 "quoted" \u{1F600}\r\n'

export function testRuns(engine: StoreUnderTest): void {
  describe('runs', () => {
    const store = useStore(engine)

    it('returns a run as it was inserted', async () => {
      const run = aRun({
        task: AWKWARD,
        owner: AWKWARD,
        labels: { team: AWKWARD },
        interactive: true,
        agentSpec: { kind: 'scripted', plan: AWKWARD },
      })

      const inserted = await store().transaction((tx) => tx.insertRun(run))

      expect(inserted).toMatchObject({ ...run, generation: 0, lastSequence: 0, hostSequence: 0 })
      expect(await store().readRun(run.id)).toEqual(inserted)
    })

    it('returns undefined for an unknown run, including an id that no database accepts', async () => {
      expect(await store().readRun('run_unknown')).toBeUndefined()
      expect(await store().readRun(AWKWARD)).toBeUndefined()
    })

    it('changes what the change names and leaves the rest', async () => {
      const id = await givenRun(store(), { task: 'keep me' })
      const change = {
        sandbox: {
          name: 'sbx',
          isolation: { backend: 'linux-bwrap', isRealIsolation: true, enforcesEgress: false, reason: 'best' },
        },
        failure: { code: 'sandbox_lost', message: AWKWARD },
        outcome: { outcome: 'failed', summary: AWKWARD },
        startedAt: '2026-01-01T00:00:00.000Z',
        firstEventAt: '2026-01-01T00:00:01.000Z',
        endedAt: '2026-01-01T00:00:02.000Z',
        checkpointAt: '2026-01-01T00:00:03.000Z',
      } satisfies RunChange

      await store().transaction((tx) => tx.changeRun(id, change))

      expect(await store().readRun(id)).toMatchObject({ ...change, task: 'keep me', generation: 0 })
    })

    it('starts a new generation at host sequence 0 with nothing to read again, and never lets the sequence go back within one', async () => {
      const id = await givenRun(store())
      const change = async (next: RunChange) => {
        await store().transaction((tx) => tx.changeRun(id, next))
        const run = await store().readRun(id)
        return { generation: run?.generation, hostSequence: run?.hostSequence, hostReread: run?.hostReread }
      }

      expect(await change({ generation: 1 })).toEqual({ generation: 1, hostSequence: 0, hostReread: 0 })
      expect(await change({ hostSequence: 7, hostReread: 2 })).toEqual({
        generation: 1,
        hostSequence: 7,
        hostReread: 2,
      })
      expect(await change({ hostSequence: 3 })).toEqual({ generation: 1, hostSequence: 7, hostReread: 2 })
      expect(await change({ hostReread: 0 })).toEqual({ generation: 1, hostSequence: 7, hostReread: 0 })
      expect(await change({ hostReread: 1 })).toMatchObject({ hostReread: 1 })
      expect(await change({ generation: 2 })).toEqual({ generation: 2, hostSequence: 0, hostReread: 0 })
    })

    it('changes the state and other facts of a run that is in the expected state', async () => {
      const id = await givenRun(store())

      await store().transaction((tx) =>
        tx.changeRunState(id, { from: 'queued', to: 'starting' }, { generation: 1 }),
      )

      expect(await store().readRun(id)).toMatchObject({ state: 'starting', generation: 1 })
    })

    it('rejects a change of state, and keeps the run as it is, when the run is in another state', async () => {
      const id = await givenRun(store(), { state: 'succeeded' })
      const change = store().transaction((tx) =>
        tx.changeRunState(id, { from: 'running', to: 'waiting' }, { generation: 1 }),
      )

      await expect(change).rejects.toMatchObject({ code: 'conflict' })
      expect(await store().readRun(id)).toMatchObject({ state: 'succeeded', generation: 0 })
    })

    it('keeps nothing of a transaction that fails', async () => {
      const run = aRun()

      const failing = store().transaction(async (tx) => {
        await tx.insertRun(run)
        await tx.appendEvents(run.id, [anEvent('one')])
        throw new Error('half way')
      })

      await expect(failing).rejects.toThrow('half way')
      expect(await store().readRun(run.id)).toBeUndefined()
      expect(await store().readEvents(run.id, 0, 10)).toEqual([])
    })

    it('sees its own writes in a transaction; other readers see them only after the commit', async () => {
      const run = aRun()

      await store().transaction(async (tx) => {
        await tx.insertRun(run)

        expect(await tx.readRun(run.id)).toMatchObject({ id: run.id })
        expect(await store().readRun(run.id)).toBeUndefined()
      })

      expect(await store().readRun(run.id)).toMatchObject({ id: run.id })
    })

    it('refuses a write of the store inside a transaction, and allows one after it', async () => {
      const { promise: commit, resolve } = Promise.withResolvers<void>()
      let later: Promise<void> | undefined

      const inside = store().transaction(async () => {
        later = commit.then(() => store().writeSetting('later', 'yes'))
        await store().writeSetting('inside', 'no')
      })

      await expect(inside).rejects.toThrow('inside a transaction')
      resolve()
      await later
      expect(await store().readSetting('later')).toBe('yes')
    })

    it('pages runs from the newest to the oldest, each once, even if runs are inserted in between', async () => {
      const owner = 'pager'
      const ids: string[] = []
      for (let count = 0; count < 7; count += 1) ids.push(await givenRun(store(), { owner }))

      const first = await store().listRuns({ owner, limit: 3 })
      await givenRun(store(), { owner })
      const second = await store().listRuns({ owner, limit: 3, after: `${first.next}` })
      const third = await store().listRuns({ owner, limit: 3, after: `${second.next}` })

      const pages = [first, second, third].map(({ items }) => items)
      expect(pages.map(({ length }) => length)).toEqual([3, 3, 1])
      expect(third.next).toBeUndefined()
      expect(
        pages
          .flat()
          .map(({ id }) => id)
          .toSorted(),
      ).toEqual(ids.toSorted())
      const times = pages.flat().map(({ createdAt }) => createdAt)
      expect(times).toEqual(times.toSorted().toReversed())
    })

    it('filters runs by owner, kind and state', async () => {
      const owner = 'filter'
      const agent = await givenRun(store(), { owner, state: 'running' })
      const command = await givenRun(store(), { owner, kind: 'command', state: 'waiting' })
      await givenRun(store(), { owner: 'somebody else', state: 'running' })
      const list = async (filter: object) =>
        (await store().listRuns({ owner, limit: 10, ...filter })).items.map(({ id }) => id)

      expect(await list({ kind: 'agent' })).toEqual([agent])
      expect(await list({ kind: 'command' })).toEqual([command])
      expect(await list({ states: ['running', 'queued'] })).toEqual([agent])
      expect(await list({ states: [] })).toEqual([])
    })

    it('refuses a cursor that names no run', async () => {
      await expect(store().listRuns({ after: AWKWARD, limit: 5 })).rejects.toMatchObject({
        code: 'invalid_request',
      })
    })

    it('counts runs by state, of all owners or of one', async () => {
      const before = await store().countRuns({ states: ['starting'] })
      await givenRun(store(), { owner: 'counter', state: 'starting' })
      await givenRun(store(), { owner: 'other', state: 'starting' })

      expect(await store().countRuns({ states: ['starting'] })).toBe(before + 2)
      expect(await store().countRuns({ owner: 'counter', states: ['starting', 'waiting'] })).toBe(1)
      expect(await store().countRuns({ owner: 'counter', states: [] })).toBe(0)
    })

    it('keeps other writers off a run that a transaction has read', async () => {
      const id = await givenRun(store())
      const addOne = () =>
        store().transaction(async (tx) => {
          const run = await tx.readRun(id)
          await tx.changeRun(id, {
            failure: { code: 'internal', message: `${Number(run?.failure?.message ?? 0) + 1}` },
          })
        })

      await Promise.all(Array.from({ length: 8 }, addOne))

      expect((await store().readRun(id))?.failure?.message).toBe('8')
    })
  })
}
