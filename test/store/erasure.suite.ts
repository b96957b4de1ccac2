import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { aCall, aClaim, anApproval, anEvent, givenRun } from './rows.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

export function testErasure(engine: StoreUnderTest): void {
  describe('erasure', () => {
    const store = useStore(engine)

    it('deletes a run with all rows of it, but not before its sandbox is released', async () => {
      const [id, other] = [await givenRun(store()), await givenRun(store())]
      const claim = aClaim(id)
      await store().transaction(async (tx) => {
        await tx.upsertClaim(claim)
        await tx.appendEvents(id, [anEvent('one'), anEvent('two'), anEvent('three')])
        await tx.appendEvents(other, [anEvent('kept')])
        await tx.insertTurn({ id: `turn_${id}`, runId: id, state: 'queued', prompt: 'p', final: false })
        await tx.insertApproval(anApproval(id))
        await tx.insertCall(aCall(id))
        await tx.insertCommand({ id: `cmd_${id}`, runId: id, state: 'running', request: {} })
        await tx.insertContribution({ runId: id, person: 'ada', how: 'start', at: claim.createdAt })
      })
      await store().writeBlob(
        { runId: id, name: 'patch', maxBytes: 10 },
        Readable.from([Buffer.from('text')]),
      )
      const pushed = { repository: 'h:443/a', ref: `refs/heads/agentweaver/${id}/a`, commit: 'a'.repeat(40) }
      await store().transaction((tx) => tx.recordPushed(id, { ...pushed, at: '2026-01-01T00:00:00.000Z' }))
      const erase = () => store().transaction((tx) => tx.eraseRun(id))

      await expect(erase()).rejects.toMatchObject({ code: 'conflict' })
      await store().transaction((tx) => tx.changeClaim(claim, { state: 'released' }))
      expect([await store().deleteEvents(id, 2), await store().deleteEvents(id, 2)]).toEqual([2, 1])
      expect(await erase()).toBe(0)

      expect(await store().readRun(id)).toBeUndefined()
      expect(await store().readBlob(id, 'patch')).toBeUndefined()
      expect(await store().listPushed(id)).toEqual([])
      expect(await store().readEvents(other, 0, 10)).toHaveLength(1)
    })

    it('keeps that somebody contributed to the run of another owner, without the name', async () => {
      const runId = await givenRun(store())
      const at = '2026-01-01T00:00:00.000Z'
      const read = () => store().transaction((tx) => tx.listContributions(runId))
      await store().transaction(async (tx) => {
        for (const person of ['eve', 'eve', 'bob'])
          await tx.insertContribution({ runId, person, keyId: `key_${person}`, how: 'turn', at })
      })
      expect((await read()).map(({ person }) => person).sort()).toEqual(['bob', 'eve'])

      await store().eraseOwner('eve')

      expect((await read()).map(({ person }) => person).sort()).toEqual(['an erased person', 'bob'])
    })

    it('deletes the keys and folders of an owner, and nothing of another one', async () => {
      const createdAt = '2026-01-01T00:00:00.000Z'
      const folder = { path: '/srv', origin: 'trust', trustedAt: createdAt } as const
      for (const owner of ['ada', 'bob'])
        await store().transaction(async (tx) => {
          const key = { id: `key_${owner}`, hash: owner, owner, role: 'user', createdAt } as const
          await tx.insertApiKey({ ...key, createdBy: 'ada' })
          await tx.trustFirst({ ...folder, owner })
        })

      expect(await store().eraseOwner('ada')).toBe(1)

      expect(await store().readApiKey('ada')).toBeUndefined()
      const kept = await store().readApiKey('bob')
      expect([kept?.id, kept?.createdBy]).toEqual(['key_bob', undefined])
      expect(await store().readTrustedFolder('ada', '/srv')).toBeUndefined()
      expect(await store().readTrustedFolder('bob', '/srv')).toBeDefined()
    })
  })
}
