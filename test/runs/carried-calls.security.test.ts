import { describe, expect, it } from 'vitest'
import type { HostEvent } from '../../contracts/events.ts'
import { startCommitterRig } from './committer-rig.ts'

type CallData = Extract<HostEvent, { type: 'tool.call' }>['data']

const aCall = (over: Partial<CallData> = {}): HostEvent => ({
  type: 'tool.call',
  data: {
    callId: 'c',
    tool: 'create',
    request: { path: 'a', file_text: '' },
    verdict: 'ask',
    reasons: [],
    ...over,
  },
})
const aResult: HostEvent = {
  type: 'tool.result',
  data: { callId: 'c', tool: 'create', outcome: { ok: true, content: 'done', facts: {} }, durationMs: 1 },
}

/** A run whose call `c` was approved while it was suspended, and the committer of its second sandbox. */
async function aResumedRun() {
  let verdict: 'allow' | 'deny' = 'allow'
  const { store, runId, driver } = await startCommitterRig(() => verdict)
  const first = await driver()
  const sent = (...events: HostEvent[]) =>
    events.map((event, index) => ({ sequence: index + 1, at: new Date().toISOString(), event }))
  await first.committer.commit({ runId, generation: 1, envelopes: sent(aCall()) })
  await store.transaction(async (tx) => {
    const [approval] = await tx.listApprovals(runId)
    await tx.decideApproval(approval?.requestId ?? '', { state: 'approved', scope: 'once' })
    await tx.changeCall(runId, 'c', { state: 'released', decision: { callId: 'c', outcome: 'release' } })
    await tx.changeRun(runId, { generation: 2, carriedCalls: ['c'] })
  })
  const { committer } = await driver()
  return {
    store,
    runId,
    commit: (...events: HostEvent[]) =>
      committer.commit({ runId, generation: 2, envelopes: sent(...events) }),
    deny: () => {
      verdict = 'deny'
    },
    typesOf: async () => (await store.readEvents(runId, 0, 100)).map(({ event }) => event.type),
  }
}

describe('a call that was approved while its run had no sandbox', () => {
  it('is released when the next sandbox announces the same request, and ends once', async () => {
    const { commit, typesOf } = await aResumedRun()

    expect((await commit(aCall())).decisions).toEqual([{ callId: 'c', outcome: 'release' }])
    const before = await typesOf()
    expect(before.filter((type) => type === 'tool.call')).toHaveLength(1)
  })

  it.each<[string, HostEvent[]]>([
    ['other arguments', [aCall({ request: { path: '/etc/passwd', file_text: '' } })]],
    ['another tool', [aCall({ tool: 'run_command', request: { command: 'true' } })]],
    ['another digest of what is redacted', [aCall({ redacted: true, rawDigest: 'f'.repeat(64) })]],
    ['the same call twice', [aCall(), aCall()]],
    ['a result without the announcement', [aResult]],
    [
      'an error without the announcement',
      [{ type: 'tool.error', data: { callId: 'c', tool: 'create', code: 'x', message: 'x' } }],
    ],
  ])('is not released to a sandbox that sends %s', async (_what, events) => {
    const { commit, store, runId } = await aResumedRun()

    await expect(commit(...events)).rejects.toMatchObject({ code: 'sandbox_lost' })
    expect((await store.readRun(runId))?.carriedCalls).toEqual(['c'])
  })

  it('is refused if the policy does not permit it in the next sandbox', async () => {
    const { commit, deny, typesOf, store, runId } = await aResumedRun()
    deny()

    const { decisions } = await commit(aCall())

    expect(decisions).toMatchObject([{ callId: 'c', outcome: 'policyDenied' }])
    expect(await typesOf()).toContain('tool.denied')
    expect((await store.transaction((tx) => tx.readCall(runId, 'c')))?.state).toBe('refused')
  })

  it('cannot be announced again in a later sandbox after it has ended', async () => {
    const { commit, store, runId } = await aResumedRun()
    await store.transaction((tx) => tx.changeCall(runId, 'c', { state: 'ended' }))

    await expect(commit(aCall())).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
})
