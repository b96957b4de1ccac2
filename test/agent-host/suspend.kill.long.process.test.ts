import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { HostEnvelope } from '../../contracts/events.ts'
import { childPids } from '../agents/children.ts'
import { conversationOf } from '../agents/suspended-turns.ts'
import { until } from '../helpers/until.ts'
import { type HostOnSocket, turnEnded } from './process-rig.ts'
import { aModel, aSandbox, aWaitingTurn, called, follow, never, resume, sessionOf } from './suspend-rig.ts'

type Killed = 'AgentHost' | 'the agent runtime'
type Model = Awaited<ReturnType<typeof aModel>>['server']

/** Kills a process of a sandbox and waits for its end. */
async function kill({ host }: HostOnSocket, what: Killed): Promise<void> {
  if (what === 'AgentHost') {
    process.kill(host.handle.pid, 'SIGKILL')
    await host.exited
    return
  }
  const isRuntime = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('copilot')
  const [pid] = (await childPids(host.handle.pid)).filter(isRuntime)
  if (pid === undefined) throw new Error('this sandbox has no agent runtime')
  process.kill(pid, 'SIGKILL')
  await until('the agent runtime is gone', () => !existsSync(`/proc/${pid}`))
}

/** The steps of a turn that continues in the second sandbox. Each leaves the sandbox in the middle of the turn. */
const STEPS: Record<string, (next: HostOnSocket, model: Model) => Promise<unknown>> = {
  'before the turn is started': async () => undefined,
  'after the call was made again': async (next) => {
    await resume(next)
    await follow(next, called, () => undefined)
  },
  'while the call waits again': async (next) => {
    await resume(next)
    await follow(next, called, () => 'pending')
  },
  'while the released call runs': async (next) => {
    writeFileSync(join(next.workspace, 'hold'), '')
    await resume(next)
    await follow(next, called)
    await until('the command runs', () => existsSync(join(next.workspace, 'effect.txt')))
  },
  'while the model has the result': async (next, model) => {
    await resume(next)
    await follow(next, ({ event }) => event.type === 'tool.result')
    await until('the model is asked', () => model.requests.length > 1)
  },
}

const isResult = ({ event }: HostEnvelope) => event.type === 'tool.result'

describe.each(['AgentHost', 'the agent runtime'] as const)('a sandbox in which %s is killed', (what) => {
  it.each(Object.entries(STEPS))(
    'is followed by one that continues the checkpoint: %s',
    async (_at, step) => {
      let isSilent = true
      const { server, agent } = await aModel(() => (isSilent ? { hang: true } : { text: 'It is done.' }))
      const { host, call } = await aWaitingTurn({ agent })
      const checkpoint = await sessionOf(host)
      await kill(host, 'AgentHost')
      const second = await aSandbox({ agent, generation: 2 }, checkpoint)
      await step(second, server)
      await kill(second, what)

      isSilent = false
      const third = await aSandbox({ agent, generation: 3 }, checkpoint)
      await resume(third)
      const events = await follow(third, turnEnded)

      expect(events.at(-1)?.event).toEqual({ type: 'turn.ended', data: { turnId: 't1', state: 'completed' } })
      expect(events.filter(called).map(({ event }) => event)).toEqual([call])
      expect(events.filter(isResult)).toHaveLength(1)
      expect(conversationOf(server.requests.at(-1))).toEqual([
        'user: go',
        'assistant call_a: I will.',
        expect.stringMatching(/^tool call_a: /),
      ])
    },
  )
})

describe('an agent runtime that is killed while a call waits', () => {
  it('fails the turn, and the session continues in the next sandbox without the call', async () => {
    const { server, agent } = await aModel()
    const { host } = await aWaitingTurn({ agent })
    await kill(host, 'the agent runtime')
    const ended = await follow(host, turnEnded, () => undefined)
    const session = await sessionOf(host)

    const next = await aSandbox({ agent, generation: 2 }, session)
    await expect(resume(next)).rejects.toMatchObject({ code: 'conflict' })
    await next.client.turns.start({ id: 't2', prompt: 'go on' }, never)
    const events = await follow(next, turnEnded)

    expect(ended.at(-1)?.event.data).toMatchObject({ state: 'failed', code: 'agent_failed' })
    expect(events.at(-1)?.event.data).toEqual({ turnId: 't2', state: 'completed' })
    expect(events.filter(called)).toEqual([])
    expect(conversationOf(server.requests.at(-1)).at(-1)).toBe('user: go on')
  })

  it('does not run the call when it is released later', async () => {
    const { agent } = await aModel()
    const { host, callId } = await aWaitingTurn({ agent })
    await sessionOf(host)

    await kill(host, 'the agent runtime')
    await follow(host, turnEnded, () => undefined)
    const late = await host.client.decide(
      { ackedThrough: 0, decisions: [{ callId, outcome: 'release' }] },
      never,
    )

    expect(late).toMatchObject({ conflicting: [callId] })
    expect(existsSync(join(host.workspace, 'effect.txt'))).toBe(false)
  })
})
