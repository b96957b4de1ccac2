import { describe, expect, it } from 'vitest'
import { type AuditDraft, chainRecords, sealRun } from '../../runtime/audit/chain.ts'
import type { AuditQuery, AuditRow } from '../../runtime/store/audit-rows.ts'
import type { Store } from '../../runtime/store/store.ts'
import { sealedHead } from '../audit/drafts.ts'
import { verifyChain } from '../audit/verify-chain.ts'
import { givenRun } from './rows.ts'
import { AWKWARD } from './runs.suite.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

const key = { keyId: 'k1', key: new Uint8Array(32).fill(7) }

const aDraft = (runId: string, over: Partial<AuditDraft> = {}): AuditDraft => ({
  kind: 'intent',
  runId,
  callId: 'call-1',
  actor: 'agent:scripted',
  tool: 'run_command',
  params: { command: AWKWARD },
  policyVersion: 'p1',
  decision: 'allow',
  reasons: [AWKWARD],
  at: '2026-01-01T00:00:00.000Z',
  ...over,
})

const record = (store: Store, runId: string, ...drafts: AuditDraft[]) =>
  store.transaction(async (tx) => {
    const { rows, head } = chainRecords(await tx.auditHead(runId), drafts, key)
    await tx.appendAudit(rows, head)
  })

async function readAll(store: Store, query: Omit<AuditQuery, 'limit'>): Promise<AuditRow[]> {
  const { items, next } = await store.readAudit({ ...query, limit: 3 })
  return next === undefined ? items : [...items, ...(await readAll(store, { ...query, after: next }))]
}

export function testAudit(engine: StoreUnderTest): void {
  describe('audit', () => {
    const store = useStore(engine)

    it('returns a verifiable chain after concurrent writes, read in pages', async () => {
      const runId = await givenRun(store())

      await Promise.all(
        Array.from({ length: 8 }, (_, call) => record(store(), runId, aDraft(runId, { callId: `${call}` }))),
      )

      const rows = await readAll(store(), { runId })
      const head = await store().transaction((tx) => tx.auditHead(runId))
      expect(head.count).toBe(8)
      expect(rows.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
      expect(verifyChain(rows, head, [key])).toEqual({ ok: true })
      expect(verifyChain(rows.slice(0, 7), head, [key])).toMatchObject({ ok: false })
    })

    it('keeps the chains of two runs apart, and the sealed heads in the chain of the deployment', async () => {
      const [first, second] = [await givenRun(store()), await givenRun(store())]
      for (const runId of [first, second, first]) await record(store(), runId, aDraft(runId))

      const seal = (runId: string) =>
        store().transaction(async (tx) => {
          const head = await tx.auditHead(runId)
          const links = sealRun({ runId, head, at: '2026-01-01T00:00:01.000Z' }, await tx.auditHead(''), key)
          await tx.appendAudit(links.rows, links.head)
          return head
        })
      const heads = await Promise.all([first, second].map(seal))

      const deployment = await readAll(store(), { runId: '' })
      const deploymentHead = await store().transaction((tx) => tx.auditHead(''))
      expect(heads.map(({ count }) => count)).toEqual([2, 1])
      expect(verifyChain(deployment, deploymentHead, [key])).toEqual({ ok: true })
      expect(sealedHead(deployment, first)).toEqual(heads[0])
      expect(sealedHead(deployment, second)).toEqual(heads[1])
    })

    it('refuses rows that do not continue the chain, and keeps nothing of their transaction', async () => {
      const runId = await givenRun(store())
      const stale = { count: 0, mac: '' }
      await record(store(), runId, aDraft(runId))

      const links = chainRecords(stale, [aDraft(runId)], key)
      const append = store().transaction((tx) => tx.appendAudit(links.rows, links.head))

      await expect(append).rejects.toMatchObject({ code: 'conflict' })
      expect(await readAll(store(), { runId })).toHaveLength(1)
    })

    it('refuses rows of two chains at once', async () => {
      const [first, second] = [await givenRun(store()), await givenRun(store())]
      const rows = [first, second].flatMap(
        (runId) => chainRecords({ count: 0, mac: '' }, [aDraft(runId)], key).rows,
      )

      const append = store().transaction((tx) => tx.appendAudit(rows, { count: 1, mac: 'x' }))

      await expect(append).rejects.toThrow('one chain')
    })

    it('filters by tool, decision and time', async () => {
      const runId = await givenRun(store())
      const at = (second: number) => `2027-01-01T00:00:0${second}.000Z`
      await record(
        store(),
        runId,
        aDraft(runId, { tool: AWKWARD, decision: 'deny', at: at(1) }),
        aDraft(runId, { tool: AWKWARD, decision: 'allow', at: at(2) }),
        aDraft(runId, { tool: 'read_file', decision: 'deny', at: at(3) }),
      )
      const found = async (query: object) =>
        (await readAll(store(), { since: at(0), ...query })).map(({ sequence }) => sequence)

      expect(await found({ tool: AWKWARD })).toEqual([1, 2])
      expect(await found({ decision: 'deny' })).toEqual([1, 3])
      expect(await found({ tool: AWKWARD, decision: 'deny', runId })).toEqual([1])
      expect(await found({ since: '2027-01-01T00:00:02Z' })).toEqual([2, 3])
      expect(await found({ until: '2027-01-01T00:00:02Z' })).toEqual([1])
    })

    it('refuses a cursor of another list', async () => {
      await expect(store().readAudit({ after: 'x', limit: 1 })).rejects.toMatchObject({
        code: 'invalid_request',
      })
    })

    it('returns an empty head for a chain without records', async () => {
      const runId = await givenRun(store())

      expect(await store().transaction((tx) => tx.auditHead(runId))).toEqual({ count: 0, mac: '' })
    })
  })
}
