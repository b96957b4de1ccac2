import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { AgentConfig, PlanStep } from '../../contracts/agents.ts'
import type { ConfigureRequestInput } from '../../contracts/configure.ts'
import { conversationOf } from '../agents/suspended-turns.ts'
import { turnEnded } from './process-rig.ts'
import {
  aModel,
  aSandbox,
  aWaitingTurn,
  COMMAND,
  called,
  follow,
  never,
  resume,
  sessionOf,
} from './suspend-rig.ts'

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

describe('a turn that waits for a decision', () => {
  it('continues in the next sandbox with the real agent runtime', async () => {
    const { server, agent } = await aModel()
    const { host, call } = await aWaitingTurn({ agent })
    const session = await sessionOf(host)
    await host.host.destroy()

    const next = await aSandbox({ agent, generation: 2 }, session)
    await resume(next)
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

  it('continues with a scripted agent, whose later calls have new ids', async () => {
    const { host } = await aWaitingTurn({ agent: SCRIPTED })

    const next = await aSandbox({ agent: SCRIPTED, generation: 2 }, await sessionOf(host))
    await Promise.all([resume(next), resume(next)])
    const events = await follow(next, turnEnded)
    await resume(next)

    const ids = events.flatMap(({ event }) => (event.type === 'tool.call' ? [event.data.callId] : []))
    expect(ids).toEqual(['t1.1', 't1.g2.1'])
    expect(events.at(-1)?.event.data).toEqual({ turnId: 't1', state: 'completed' })
  })

  it('is not started again by a driver that has no record of the resumed turn', async () => {
    const { host } = await aWaitingTurn({ agent: SCRIPTED })

    const next = await aSandbox({ agent: SCRIPTED, generation: 2 }, await sessionOf(host))
    await resume(next)
    await next.client.turns.start({ id: 't1', prompt: 'go' }, never)
    const events = await follow(next, turnEnded)

    expect(events.map(({ event }) => event.type)).not.toContain('turn.started')
    expect(events.filter(called)).toHaveLength(2)
  })

  it('continues in its own sandbox after the export', async () => {
    const { server, agent } = await aModel()
    const { host, callId } = await aWaitingTurn({ agent })
    await sessionOf(host)

    await host.client.decide({ ackedThrough: 0, decisions: [{ callId, outcome: 'release' }] }, never)
    const events = await follow(host, turnEnded, () => undefined)

    expect(events.at(-1)?.event.data).toEqual({ turnId: 't1', state: 'completed' })
    expect(server.requests).toHaveLength(2)
  })

  it.each([
    ['the call is announced but no decision is requested', undefined],
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

    const resumed = resume(host)

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
      await resume(next)
      return (await follow(next, called, () => 'denied')).find(called)?.event
    }

    expect(call?.data).toMatchObject({ redacted: true, rawDigest: expect.any(String) })
    expect(await digestsOf({ generation: 2, turnBearerToken: 'A'.repeat(43) })).toEqual(call)
    expect(await digestsOf({ generation: 2, digestKey: 'E'.repeat(43) }), 'the key counts').not.toEqual(call)
  })
})
