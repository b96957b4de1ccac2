import { expect, it } from 'vitest'
import type { AgentConfig, PlanStep } from '../../../contracts/agents.ts'
import type { CallDecision } from '../../../contracts/decisions.ts'
import type { HostEnvelope } from '../../../contracts/events.ts'
import { aConfiguredHost, called, collect, hasFile, never, type Subject, textOf, turnEnded } from './host.ts'

const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })
export const scripted = (...turns: PlanStep[][]): AgentConfig => ({ kind: 'scripted', plan: { turns } })

const callIdOf = (seen: readonly HostEnvelope[]): string => {
  const call = seen.map(({ event }) => event).find(({ type }) => type === 'tool.call')
  if (call?.type !== 'tool.call') throw new Error('there was no call')
  return call.data.callId
}

/** A turn that has announced one call and waits. The call creates a file when it runs. */
async function aWaitingCall(subject: Subject) {
  const host = await aConfiguredHost(subject, { agent: scripted([shell('echo x >> effect.txt')]) })
  await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
  const seen = await collect(host, called, { decide: () => undefined })
  const callId = callIdOf(seen)
  const decide = (...outcomes: (Partial<CallDecision> & Pick<CallDecision, 'outcome'>)[]) =>
    host.client.decide(
      { ackedThrough: 0, decisions: outcomes.map((decision) => ({ callId, ...decision })) },
      never,
    )
  const end = () => collect(host, turnEnded, { after: seen.length, decide: () => undefined })
  return { host, callId, decide, end }
}

const errorOf = (events: readonly HostEnvelope[]) =>
  events.map(({ event }) => event).find(({ type }) => type === 'tool.error')?.data

export function decisionCases(subject: Subject): void {
  it('runs nothing before the release, and runs it once afterwards', async () => {
    const { host, decide, end } = await aWaitingCall(subject)
    const before = await hasFile(host, 'effect.txt')

    const reply = await decide({ outcome: 'release' })
    const events = await end()

    expect(before).toBe(false)
    expect(reply.accepted).toHaveLength(1)
    expect(await textOf(host, 'effect.txt')).toBe('x\n')
    expect(events.some(({ event }) => event.type === 'tool.result')).toBe(true)
  })

  it('runs a call once, however often it is released', async () => {
    const { host, decide, end } = await aWaitingCall(subject)
    const twice = decide({ outcome: 'release' }, { outcome: 'release' })
    const again = Promise.all([1, 2, 3].map(() => decide({ outcome: 'release' })))

    const replies = [await twice, ...(await again)]
    await end()

    for (const reply of replies) expect([reply.unknown, reply.conflicting]).toEqual([[], []])
    expect(await textOf(host, 'effect.txt')).toBe('x\n')
  })

  it.each(['denied', 'expired', 'superseded', 'policyDenied'] as const)(
    'does not run a call that is %s, regardless of later decisions',
    async (outcome) => {
      const { host, callId, decide, end } = await aWaitingCall(subject)

      const first = await decide({ outcome, reason: 'because' })
      const second = await decide({ outcome: 'release' }, { outcome: 'pending' }, { outcome })
      const events = await end()

      expect(first.accepted).toEqual([callId])
      expect(second).toEqual({ accepted: [callId], unknown: [], conflicting: [callId, callId] })
      expect(errorOf(events)).toMatchObject({ callId, code: outcome })
      expect(await hasFile(host, 'effect.txt')).toBe(false)
    },
  )

  it('waits for an approval if required, and then accepts the decision', async () => {
    const { host, decide, end } = await aWaitingCall(subject)

    const until = new Date(Date.now() + 3_600_000).toISOString()
    const pending = await decide({ outcome: 'pending', until })
    const before = await hasFile(host, 'effect.txt')
    await decide({ outcome: 'release' })
    await end()

    expect(pending.accepted).toHaveLength(1)
    expect([before, await hasFile(host, 'effect.txt')]).toEqual([false, true])
  })

  it('does not run a call that is released after its turn was cancelled', async () => {
    const { host, callId, decide } = await aWaitingCall(subject)
    await host.client.turns.cancel('t1', never)

    const late = await decide({ outcome: 'release' })

    expect(late.conflicting).toEqual([callId])
    expect(await hasFile(host, 'effect.txt')).toBe(false)
  })

  it('keeps a decision for a call that is not announced yet, and the first of two decisions', async () => {
    const host = await aConfiguredHost(subject, {
      agent: scripted([shell('echo x >> first.txt'), shell('echo x >> second.txt')]),
    })
    const decisions: CallDecision[] = [
      { callId: 't1.1', outcome: 'denied' },
      { callId: 't1.1', outcome: 'release' },
      { callId: 't1.2', outcome: 'release' },
      { callId: 't9.1', outcome: 'release' },
    ]

    const reply = await host.client.decide({ ackedThrough: 0, decisions }, never)
    await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
    await collect(host, turnEnded, { decide: () => undefined })

    expect(reply.unknown).toEqual(decisions.map(({ callId }) => callId))
    expect([await hasFile(host, 'first.txt'), await hasFile(host, 'second.txt')]).toEqual([false, true])
  })

  it('ignores a whole request if one entry is malformed', async () => {
    const { host, callId, end, decide } = await aWaitingCall(subject)
    const release = { callId, outcome: 'release' }
    const bodies = [
      { ackedThrough: -1, decisions: [release] },
      { ackedThrough: 1e9, decisions: [release] },
      { ackedThrough: 0, decisions: [release, { callId, outcome: 'allow' }] },
      { ackedThrough: 0, decisions: [release], force: true },
      { ackedThrough: 0, decisions: Array.from({ length: 257 }, () => release) },
      { decisions: [release] },
    ]
    for (const body of bodies) {
      const sent = host.client.decide(body as never, never)

      await expect(sent, JSON.stringify(body).slice(0, 80)).rejects.toMatchObject({ code: 'invalid_request' })
    }
    expect(await hasFile(host, 'effect.txt')).toBe(false)
    await decide({ outcome: 'denied' })
    expect(errorOf(await end())).toMatchObject({ code: 'denied' })
  })
}
