import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { ClaimRow } from '../../runtime/store/store.ts'
import { aCall, aClaim, anApproval, givenRun } from './rows.ts'
import { AWKWARD } from './runs.suite.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

export function testWork(engine: StoreUnderTest): void {
  describe('turns, commands, calls, approvals and claims', () => {
    const store = useStore(engine)

    it('numbers turns in the order in which they were taken, also when several come at once', async () => {
      const runId = await givenRun(store())
      const take = (id: string) =>
        store().transaction((tx) =>
          tx.insertTurn({ id: `${runId}-${id}`, runId, state: 'queued', prompt: AWKWARD, final: id === 'c' }),
        )

      await Promise.all([take('a'), take('b'), take('c')])
      await store().transaction((tx) => tx.changeTurn(`${runId}-a`, 'sent'))

      const turns = await store().transaction((tx) => tx.listTurns(runId))
      const queued = await store().transaction((tx) => tx.listTurns(runId, ['queued']))
      expect(turns.map(({ ordinal }) => ordinal)).toEqual([1, 2, 3])
      expect(turns.every(({ prompt }) => prompt === AWKWARD)).toBe(true)
      expect(turns.find(({ final }) => final)?.id).toBe(`${runId}-c`)
      expect(queued.map(({ id }) => id).toSorted()).toEqual([`${runId}-b`, `${runId}-c`])
    })

    it('keeps how a turn ended and the last outcome that was reported in it', async () => {
      const runId = await givenRun(store())
      const id = `${runId}-turn`
      const end = { state: 'failed', code: 'agent_failed', message: AWKWARD } as const
      await store().transaction((tx) =>
        tx.insertTurn({ id, runId, state: 'sent', prompt: 'p', final: false }),
      )

      await store().transaction((tx) => tx.reportOutcome(id, { outcome: 'failed' }))
      await store().transaction((tx) => tx.reportOutcome(id, { outcome: 'succeeded', summary: AWKWARD }))
      await store().transaction((tx) => tx.endTurn(id, end))

      expect(await store().transaction((tx) => tx.listTurns(runId, ['ended']))).toEqual([
        {
          ...{ id, runId, state: 'ended', prompt: 'p', final: false, ordinal: 1 },
          ...{ end, outcome: { outcome: 'succeeded', summary: AWKWARD } },
        },
      ])
    })

    it('keeps a command with its first result, for its own run only', async () => {
      const [runId, other] = [await givenRun(store()), await givenRun(store())]
      const request = { command: AWKWARD }
      const id = `${runId}-command`
      await store().transaction((tx) => tx.insertCommand({ id, runId, request, state: 'running' }))

      await store().transaction((tx) => tx.endCommand(id, { exitCode: 0 }))
      await store().transaction((tx) => tx.endCommand(id, { exitCode: 1 }))

      const read = (run: string) => store().transaction((tx) => tx.readCommand(run, id))
      expect(await read(runId)).toEqual({ id, runId, request, state: 'ended', result: { exitCode: 0 } })
      expect(await read(other)).toBeUndefined()
    })

    it('stores a call under the id that the sandbox chose, even an unusual one', async () => {
      const runId = await givenRun(store())
      const call = aCall(runId, { callId: AWKWARD, tool: AWKWARD })
      await store().transaction((tx) => tx.insertCall(call))

      await store().transaction((tx) =>
        tx.changeCall(runId, AWKWARD, {
          state: 'released',
          decision: { callId: AWKWARD, outcome: 'release' },
        }),
      )

      const released = { ...call, state: 'released', decision: { callId: AWKWARD, outcome: 'release' } }
      await store().transaction(async (tx) => {
        expect(await tx.readCall(runId, AWKWARD)).toEqual(released)
        expect(await tx.listCalls(runId, ['released'])).toEqual([released])
        expect(await tx.listCalls(runId, ['open', 'refused'])).toEqual([])
        expect(await tx.readCall(runId, 'another')).toBeUndefined()
      })
    })

    it('keeps the request of a call until it ends, and a summary afterwards', async () => {
      const runId = await givenRun(store())
      const request = { command: AWKWARD }
      const summary = { request: AWKWARD, result: AWKWARD }
      await store().transaction((tx) => tx.insertCall({ ...aCall(runId, { callId: 'c' }), request }))
      const before = await store().transaction((tx) => tx.readCall(runId, 'c'))

      await store().transaction((tx) => tx.changeCall(runId, 'c', { state: 'ended', summary, sequence: 7 }))

      const after = await store().transaction((tx) => tx.readCall(runId, 'c'))
      expect(before).toMatchObject({ request, sequence: 0 })
      expect(after).toMatchObject({ state: 'ended', summary, sequence: 7 })
      expect(after).not.toHaveProperty('request')
    })

    it('lists the calls that were released since an event, the last ones first', async () => {
      const runId = await givenRun(store())
      await store().transaction(async (tx) => {
        for (const [index, callId] of ['a', 'b', 'c', 'd'].entries())
          await tx.insertCall(aCall(runId, { callId, sequence: index + 1 }))
        for (const callId of ['a', 'b', 'd']) await tx.changeCall(runId, callId, { state: 'released' })
        await tx.changeCall(runId, 'b', { state: 'ended', sequence: 9 })
        await tx.changeCall(runId, 'c', { state: 'refused' })
        await tx.changeCall(runId, 'c', { state: 'ended', sequence: 10 })
      })
      const list = async (after: number, limit: number) =>
        (await store().listReleasedCalls(runId, { after, limit })).map(({ callId }) => callId)

      expect(await list(0, 10)).toEqual(['b', 'd', 'a'])
      expect(await list(1, 10)).toEqual(['b', 'd'])
      expect(await list(0, 1)).toEqual(['b'])
    })

    it('finds the last turn that ended, and a turn by its id', async () => {
      const runId = await givenRun(store())
      await store().transaction(async (tx) => {
        expect(await tx.lastEndedTurn(runId)).toBeUndefined()
        for (const id of ['1', '2', '3'])
          await tx.insertTurn({ id: `${runId}-${id}`, runId, state: 'sent', prompt: 'p', final: false })
        for (const id of ['1', '2']) await tx.endTurn(`${runId}-${id}`, { state: 'completed' })
      })

      await store().transaction(async (tx) => {
        expect((await tx.lastEndedTurn(runId))?.id).toBe(`${runId}-2`)
        expect(await tx.readTurn(`${runId}-3`)).toMatchObject({ ordinal: 3, state: 'sent' })
        expect(await tx.readTurn('another')).toBeUndefined()
      })
    })

    it('refuses a second call with the id of the first', async () => {
      const runId = await givenRun(store())
      const insert = () => store().transaction((tx) => tx.insertCall(aCall(runId, { callId: 'same' })))

      await insert()

      await expect(insert()).rejects.toThrow()
    })

    it('lets exactly one of many deciders decide an approval', async () => {
      const runId = await givenRun(store())
      const approval = anApproval(runId)
      await store().transaction((tx) => tx.insertApproval(approval))
      const decide = (person: string) =>
        store().transaction((tx) =>
          tx.decideApproval(approval.requestId, {
            state: 'approved',
            scope: 'once',
            decidedBy: person,
            reason: AWKWARD,
          }),
        )

      const won = await Promise.all(['a', 'b', 'c', 'd'].map(decide))

      expect(won.filter(Boolean)).toHaveLength(1)
      const winner = ['a', 'b', 'c', 'd'][won.indexOf(true)]
      const stored = await store().transaction((tx) => tx.readApproval(runId, approval.requestId))
      expect(stored).toEqual({
        ...approval,
        state: 'approved',
        scope: 'once',
        decidedBy: winner,
        reason: AWKWARD,
      })
    })

    it('shows the approvals of a run to that run, by state and by the short name of the command', async () => {
      const [runId, other] = [await givenRun(store()), await givenRun(store())]
      const first = anApproval(runId, { commandHash: 'aaaaaaaaaaaaaaaa' })
      const second = anApproval(runId, {
        commandHash: 'bbbbbbbbbbbbbbbb',
        createdAt: '2026-01-02T00:00:00.000Z',
      })
      await store().transaction(async (tx) => {
        await tx.insertApproval(second)
        await tx.insertApproval(first)
        await tx.decideApproval(second.requestId, { state: 'denied' })
      })

      await store().transaction(async (tx) => {
        expect(await tx.readApproval(other, first.requestId)).toBeUndefined()
        expect(await tx.readApproval(runId, AWKWARD)).toBeUndefined()
        expect(await tx.listApprovals(runId, { state: 'pending', commandHash: 'aaaaaaaaaaaaaaaa' })).toEqual([
          first,
        ])
        expect(await tx.listApprovals(runId, { state: 'pending', commandHash: 'bbbbbbbbbbbbbbbb' })).toEqual(
          [],
        )
      })
      expect((await store().listApprovals(runId)).map(({ requestId }) => requestId)).toEqual([
        first.requestId,
        second.requestId,
      ])
      expect(await store().listApprovals(runId, { state: 'approved' })).toEqual([])
    })

    it('finds pending approvals whose time has come, the longest overdue first', async () => {
      const runId = await givenRun(store())
      const at = (expiresAt: string) => anApproval(runId, { expiresAt })
      const [early, late, future, decided] = [
        at('2020-01-01T00:00:00.000Z'),
        at('2020-01-02T00:00:00.000Z'),
        at('2020-01-03T00:00:00.000Z'),
        at('2020-01-01T00:00:00.000Z'),
      ]
      await store().transaction(async (tx) => {
        for (const approval of [late, early, future, decided]) await tx.insertApproval(approval)
        await tx.decideApproval(decided.requestId, { state: 'approved' })
      })

      expect(await store().listExpiredApprovals('2020-01-02T00:00:00.000Z')).toEqual([early, late])
    })

    describe('a claim that is to be bound', () => {
      const bind = (claim: ClaimRow, ids: { uid: string; sandboxUid: string; podUid: string }) =>
        store().transaction((tx) => tx.bindClaim(claim, ids))
      const fresh = () => ({ uid: randomUUID(), sandboxUid: randomUUID(), podUid: randomUUID() })
      const requested = async (over: Partial<ClaimRow> = {}) => {
        const claim = aClaim(await givenRun(store()), over)
        await store().transaction((tx) => tx.upsertClaim(claim))
        return claim
      }

      it('is bound once, to the sandbox of the UID that its row was given', async () => {
        const ids = fresh()
        const claim = await requested({ uid: ids.uid, handle: { nonce: 'n' } })

        await bind(claim, ids)

        const [bound] = (await store().listClaims(['bound'])).filter(({ name }) => name === claim.name)
        expect(bound).toEqual({ ...claim, ...ids, state: 'bound' })
        await expect(bind(claim, { ...fresh(), uid: ids.uid })).rejects.toMatchObject({
          code: 'identity_mismatch',
        })
      })

      it.each([
        ['has no UID', {}],
        ['has the UID of another claim', { uid: randomUUID() }],
        ['was released', { state: 'released' }],
      ] as const)('is refused where its row %s', async (_what, over) => {
        const ids = fresh()
        const claim = await requested({ ...('state' in over && { uid: ids.uid }), ...over })

        await expect(bind(claim, ids)).rejects.toMatchObject({ code: 'identity_mismatch' })
        expect((await store().listClaims(['bound'])).map(({ name }) => name)).not.toContain(claim.name)
      })

      it.each(['sandboxUid', 'podUid'] as const)(
        'is refused where another row names its %s, even one that was released',
        async (shared) => {
          const [first, second] = [fresh(), fresh()]
          const earlier = await requested({ uid: first.uid })
          await bind(earlier, first)
          await store().transaction((tx) => tx.changeClaim(earlier, { state: 'released' }))
          const claim = await requested({ uid: second.uid })

          const refused = bind(claim, { ...second, [shared]: first[shared] })

          await expect(refused).rejects.toMatchObject({ code: 'identity_mismatch' })
        },
      )

      it('gives a pod to one of two callers that bind it at the same moment', async () => {
        const [first, second] = [fresh(), fresh()]
        const claims = [await requested({ uid: first.uid }), await requested({ uid: second.uid })] as const

        const both = await Promise.allSettled([
          bind(claims[0], first),
          bind(claims[1], { ...second, podUid: first.podUid }),
        ])

        expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
        const refused = both.find(({ status }) => status === 'rejected')
        expect(refused).toMatchObject({ reason: { code: 'identity_mismatch' } })
      })
    })

    it('keeps the last commit of each branch that a run pushed, and forgets the oldest branches', async () => {
      const [runId, other] = [await givenRun(store()), await givenRun(store())]
      const repository = 'git.example.com:443/team/app'
      const push = (run: string, [name, commit]: [name: string, commit: string], second = 0) =>
        store().transaction((tx) =>
          tx.recordPushed(run, {
            repository,
            ref: `refs/heads/agentweaver/${run}/${name}`,
            commit: commit.repeat(40),
            at: new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString(),
          }),
        )
      await push(runId, ['fix', 'a'])
      await push(other, ['fix', 'b'])
      await push(runId, ['fix', 'c'])

      const ref = `refs/heads/agentweaver/${runId}/fix`
      expect(await store().listPushed(runId)).toEqual([{ repository, ref, commit: 'c'.repeat(40) }])

      for (let at = 1; at <= 100; at += 1) await push(runId, [`branch-${at}`, 'd'], at)
      const kept = await store().listPushed(runId)
      expect(kept).toHaveLength(100)
      expect(kept.some((one) => one.ref === ref)).toBe(false)
      expect(await store().listPushed(other)).toHaveLength(1)
    })

    it('keeps a claim from before it is asked for until it is released', async () => {
      const runId = await givenRun(store())
      const claim = aClaim(runId, { handle: { pid: 7, folder: AWKWARD } })
      const listed = async (...states: (typeof claim.state)[]) =>
        (await store().listClaims(states)).filter((row) => row.runId === runId)

      await store().transaction((tx) => tx.upsertClaim(claim))
      expect(await listed('requested')).toEqual([claim])

      await store().transaction((tx) => tx.upsertClaim({ ...claim, uid: 'u' }))
      await store().transaction((tx) =>
        tx.changeClaim(claim, { state: 'bound', podUid: 'p', sandboxUid: 's' }),
      )

      expect(await listed('requested', 'released')).toEqual([])
      expect(await listed('bound')).toEqual([
        { ...claim, state: 'bound', uid: 'u', podUid: 'p', sandboxUid: 's' },
      ])
    })
  })
}
