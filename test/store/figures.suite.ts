import { describe, expect, it } from 'vitest'
import { aClaim, anApproval, givenRun } from './rows.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

const EARLY = '2026-01-01T00:00:00.000Z'
const LATE = '2026-01-01T01:00:00.000Z'
const BETWEEN = '2026-01-01T00:30:00.000Z'
const query = { expiredBefore: BETWEEN, endedBefore: BETWEEN }

export function testFigures(engine: StoreUnderTest): void {
  describe('figures', () => {
    const store = useStore(engine)

    it('counts nothing in an empty store', async () => {
      expect(await store().readFigures(query)).toEqual({
        runs: new Map(),
        queue: [],
        gates: [],
        unreleased: 0,
      })
      expect(await store().listWaitingForPerson(5)).toEqual([])
    })

    it('counts runs by state, and the queue with its oldest run', async () => {
      await givenRun(store())
      await givenRun(store())
      await givenRun(store(), { state: 'running' })

      const { runs, queue } = await store().readFigures(query)

      expect(runs).toEqual(new Map([...Object.entries({ queued: 2, running: 1 })]))
      expect(queue).toEqual([{ lane: 'agent', count: 2, oldestMs: expect.any(Number) }])
      expect(queue[0]?.oldestMs).toBeGreaterThanOrEqual(0)
      expect(queue[0]?.oldestMs).toBeLessThan(600_000)
    })

    it('counts open gates and those that are overdue, and not the decided ones', async () => {
      const runId = await givenRun(store(), { state: 'waiting' })
      await store().transaction(async (tx) => {
        await tx.insertApproval(anApproval(runId, { createdAt: EARLY, expiresAt: EARLY }))
        await tx.insertApproval(anApproval(runId, { createdAt: LATE, expiresAt: LATE }))
        await tx.insertApproval(anApproval(runId, { kind: 'question', createdAt: LATE, expiresAt: LATE }))
        await tx.insertApproval(anApproval(runId, { kind: 'tool', state: 'approved' }))
      })

      const { gates } = await store().readFigures(query)

      expect(gates.toSorted((a, b) => a.kind.localeCompare(b.kind))).toEqual([
        { kind: 'question', count: 1, oldestAt: LATE, overdue: 0 },
        { kind: 'shell', count: 2, oldestAt: EARLY, overdue: 1 },
      ])
    })

    it('counts sandboxes that outlive their runs, and no others', async () => {
      const ended = { state: 'failed', endedAt: EARLY } as const
      const [released, left] = [await givenRun(store(), ended), await givenRun(store(), ended)]
      const late = await givenRun(store(), { state: 'failed', endedAt: LATE })
      const running = await givenRun(store(), { state: 'running' })
      await store().transaction(async (tx) => {
        await tx.upsertClaim(aClaim(released, { state: 'released' }))
        for (const runId of [left, late, running]) await tx.upsertClaim(aClaim(runId, { state: 'bound' }))
      })

      expect((await store().readFigures(query)).unreleased).toBe(1)
    })

    it('keeps the heartbeats of replicas, with the first one as their start', async () => {
      const [one, two] = [crypto.randomUUID(), crypto.randomUUID()]
      await store().noteReplica({ id: one, name: 'api-1', version: '1.0.0' })
      await store().noteReplica({ id: two, name: 'api-2', version: '1.0.1' })
      await store().noteReplica({ id: one, name: 'api-1', version: '1.0.0' })

      const listed = await store().listReplicas()
      await store().removeReplica(two)

      expect(listed.map(({ id, name, version }) => [id, name, version]).toSorted()).toEqual(
        [
          [one, 'api-1', '1.0.0'],
          [two, 'api-2', '1.0.1'],
        ].toSorted(),
      )
      for (const { startedAt, seenAt, silentMs } of listed) {
        expect(Date.parse(seenAt)).toBeGreaterThanOrEqual(Date.parse(startedAt))
        expect(silentMs).toBeLessThan(600_000)
      }
      expect((await store().listReplicas()).map(({ id }) => id)).toEqual([one])
    })

    it('lists the runs that wait for a person, the longest wait first', async () => {
      const asks = await givenRun(store(), { state: 'waiting', owner: 'bob' })
      const held = await givenRun(store(), { state: 'running' })
      const idle = await givenRun(store(), { state: 'running' })
      await store().transaction(async (tx) => {
        await tx.insertApproval(anApproval(asks, { createdAt: LATE }))
        for (const [id, reason] of [
          [held, 'resume'],
          [idle, 'turn'],
        ] as const)
          await tx.changeRunState(
            id,
            { from: 'running', to: 'suspended' },
            { waiting: { for: reason, since: EARLY } },
          )
      })

      const listed = await store().listWaitingForPerson(100)

      expect(listed.filter(({ runId }) => [asks, held, idle].includes(runId))).toEqual([
        { runId: held, owner: 'ada', for: 'resume', since: EARLY },
        { runId: asks, owner: 'bob', for: 'shell', since: LATE },
      ])
      expect(await store().listWaitingForPerson(1)).toHaveLength(1)
    })
  })
}
