import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { AgentConfig, ConfigureRequestInput, PlanStep } from '../../contracts/configure.ts'
import type { CallDecision } from '../../contracts/decisions.ts'
import type { HostEnvelope } from '../../contracts/events.ts'
import { conversationOf } from '../agents/suspended-turns.ts'
import { startModelServer } from '../fakes/model-server.ts'
import { type HostOnSocket, startHostOnSocket, turnEnded } from './process-rig.ts'

const never = new AbortController().signal
const soon = () => AbortSignal.timeout(150_000)
const COMMAND = { command: 'echo x >> effect.txt' }
const SCRIPTED: AgentConfig = {
  kind: 'scripted',
  plan: {
    turns: [
      [
        { kind: 'tool', tool: 'run_command', arguments: COMMAND } satisfies PlanStep,
        { kind: 'tool', tool: 'run_command', arguments: { command: 'echo y >> effect.txt' } },
      ],
    ],
  },
}

type Outcome = CallDecision['outcome']

/** Follows the events and decides each call, up to the first event that matches. */
async function follow(
  { client }: HostOnSocket,
  isLast: (envelope: HostEnvelope) => boolean,
  decide: (callId: string) => Outcome | undefined = () => 'release',
): Promise<HostEnvelope[]> {
  const seen: HostEnvelope[] = []
  for await (const envelope of client.events(0, soon())) {
    seen.push(envelope)
    const { event } = envelope
    if (event.type === 'tool.call') {
      const { callId } = event.data
      const outcome = decide(callId)
      if (outcome) await client.decide({ ackedThrough: 0, decisions: [{ callId, outcome }] }, soon())
    }
    if (isLast(envelope)) return seen
  }
  throw new Error('the stream ended')
}

const called = ({ event }: HostEnvelope) => event.type === 'tool.call'
const sessionOf = async ({ client }: HostOnSocket) =>
  new Uint8Array(await buffer((await client.getSession(soon())) as never))

/** A sandbox of the run. From the second generation on, it gets a session. */
async function aSandbox(change: Partial<ConfigureRequestInput>, session?: Uint8Array) {
  const host = await startHostOnSocket()
  const announced = session && {
    session: { sha256: createHash('sha256').update(session).digest('hex'), bytes: session.length },
  }
  await host.configure({ ...change, ...announced }, session)
  return host
}

/** A sandbox in which a turn waits for a decision about its first call. */
async function aWaitingTurn(change: Partial<ConfigureRequestInput>) {
  const host = await aSandbox(change)
  await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
  const seen = await follow(host, called, () => 'pending')
  return { host, call: seen.find(called)?.event }
}

async function aModel() {
  const server = await startModelServer({
    respond: (_request, index) =>
      index === 0
        ? { text: 'I will.', toolCalls: [{ id: 'call_a', name: 'run_command', arguments: COMMAND }] }
        : { text: 'It is done.' },
  })
  onTestFinished(() => server.close())
  const agent: AgentConfig = {
    kind: 'openaiCompatible',
    model: { name: 'fake-model', baseUrl: server.url },
  }
  return { server, agent }
}

describe('a turn that waits for a decision', () => {
  it('continues in the next sandbox with the real agent runtime', async () => {
    const { server, agent } = await aModel()
    const { host, call } = await aWaitingTurn({ agent })
    const session = await sessionOf(host)
    await host.host.destroy()

    const next = await aSandbox({ agent, generation: 2 }, session)
    await next.client.turns.start({ id: 't1', prompt: 'go' }, never, { resumes: true })
    const events = await follow(next, turnEnded)

    const announced = events.filter(called).map(({ event }) => event)
    expect(announced, 'the same call, tool and request').toEqual([call])
    const types = events.map(({ event }) => event.type)
    expect(types).not.toContain('turn.started')
    expect(events.at(-1)?.event).toEqual({ type: 'turn.ended', data: { turnId: 't1', state: 'completed' } })
    expect(existsSync(join(next.workspace, 'effect.txt'))).toBe(true)
    expect(conversationOf(server.requests.at(-1))).toEqual([
      'user: go',
      'assistant call_a: I will.',
      expect.stringMatching(/^tool call_a: /),
    ])
  })

  it('continues with a scripted agent, whose later calls have ids of their own', async () => {
    const { host } = await aWaitingTurn({ agent: SCRIPTED })

    const next = await aSandbox({ agent: SCRIPTED, generation: 2 }, await sessionOf(host))
    const start = () => next.client.turns.start({ id: 't1', prompt: 'go' }, never, { resumes: true })
    await Promise.all([start(), start()])
    const events = await follow(next, turnEnded)
    await start()

    const ids = events.flatMap(({ event }) => (event.type === 'tool.call' ? [event.data.callId] : []))
    expect(ids).toEqual(['t1.1', 't1.g2.1'])
    expect(events.at(-1)?.event.data).toEqual({ turnId: 't1', state: 'completed' })
  })

  it('continues in its own sandbox after the export', async () => {
    const { server, agent } = await aModel()
    const { host, call } = await aWaitingTurn({ agent })
    await sessionOf(host)

    const callId = call?.type === 'tool.call' ? call.data.callId : ''
    await host.client.decide({ ackedThrough: 0, decisions: [{ callId, outcome: 'release' }] }, never)
    const events = await follow(host, turnEnded, () => undefined)

    expect(events.at(-1)?.event.data).toEqual({ turnId: 't1', state: 'completed' })
    expect(server.requests).toHaveLength(2)
  })

  it.each([
    ['the call is announced but nobody is asked', undefined],
    ['the call was released and runs', 'release'],
  ] as const)('does not give its session away while %s', async (_what, outcome) => {
    const agent: AgentConfig = {
      kind: 'scripted',
      plan: { turns: [[{ kind: 'tool', tool: 'run_command', arguments: { command: 'sleep 300' } }]] },
    }
    const host = await aSandbox({ agent })
    await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
    await follow(host, called, () => outcome)

    await expect(sessionOf(host)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('turn t1 works'),
    })
    await host.client.turns.cancel('t1', never)
  })

  it('cannot be resumed from a session without it', async () => {
    const host = await aSandbox({ agent: SCRIPTED })

    const resumed = host.client.turns.start({ id: 't1', prompt: 'go' }, never, { resumes: true })

    await expect(resumed).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('cannot be resumed'),
    })
  })

  it('is announced with the same digest if its request is redacted', async () => {
    const agent: AgentConfig = {
      kind: 'scripted',
      plan: {
        turns: [
          [
            {
              kind: 'tool',
              tool: 'run_command',
              arguments: { command: `echo AKIA${'IOSFODNN7EXAMPLQ'}` },
            },
          ],
        ],
      },
    }
    const { host, call } = await aWaitingTurn({ agent })

    const session = await sessionOf(host)
    const digestsOf = async (change: Partial<ConfigureRequestInput>) => {
      const next = await aSandbox({ agent, ...change }, session)
      await next.client.turns.start({ id: 't1', prompt: 'go' }, never, { resumes: true })
      return (await follow(next, called, () => 'denied')).find(called)?.event
    }

    expect(call?.data).toMatchObject({ redacted: true, rawDigest: expect.any(String) })
    expect(await digestsOf({ generation: 2, turnBearerToken: 'A'.repeat(43) })).toEqual(call)
    expect(await digestsOf({ generation: 2, digestKey: 'E'.repeat(43) }), 'the key counts').not.toEqual(call)
  })
})
