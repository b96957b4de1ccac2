import { describe, expect, it } from 'vitest'
import type { Plan } from '../../contracts/agents.ts'
import { until } from '../helpers/until.ts'
import { anAgent, ok, runTurn, streamed } from './agent-rig.ts'
import { restore, startTurn, suspend } from './suspended-turns.ts'

const scripted = (...turns: Plan['turns']) => ({ kind: 'scripted', plan: { turns } }) as const
const say = (text: string) => ({ kind: 'say', text }) as const
const read = (path: string) => ({ kind: 'tool', tool: 'read_file', arguments: { path } }) as const

describe('the scripted agent', () => {
  it('executes the next list of steps in each turn, and reports when the plan has ended', async () => {
    const { agent } = await anAgent(scripted([say('first')], [say('second')]))

    const turns = [await runTurn(agent), await runTurn(agent), await runTurn(agent)]

    expect(turns.map(({ events }) => streamed(events))).toEqual(['first', 'second', 'The plan has ended.'])
    expect(turns.map(({ result }) => result.state)).toEqual(['completed', 'completed', 'completed'])
  })

  it('streams a message in pieces and then sends the complete message', async () => {
    const text = 'A sentence that is longer than one piece of a stream, with a \u{1F99A} in it.'
    const { agent } = await anAgent(scripted([say(text)]))

    const { events } = await runTurn(agent)

    expect(events.length).toBeGreaterThan(2)
    expect(streamed(events)).toBe(text)
    expect(events.at(-1)).toMatchObject({ type: 'agent.message', data: { text } })
  })

  it('makes its calls one after another, with ids derived from the turn', async () => {
    let open = 0
    const { agent, calls } = await anAgent(scripted([read('a'), say('between'), read('b')]), {
      callTool: async () => {
        open += 1
        await new Promise((resolve) => setImmediate(resolve))
        expect(open--).toBe(1)
        return ok('')
      },
    })

    const { turnId } = await runTurn(agent)

    expect(calls).toEqual([
      { callId: `${turnId}.1`, tool: 'read_file', arguments: { path: 'a' } },
      { callId: `${turnId}.2`, tool: 'read_file', arguments: { path: 'b' } },
    ])
  })

  it.each([
    [
      'is refused',
      { ok: false, code: 'path_outside', message: 'The path is outside.' },
      /The path is outside/,
    ],
    [
      'ends with an exit code',
      { ok: true, content: 'Exit code 3. no host', facts: { exitCode: 3 } },
      /no host/,
    ],
    ['is killed', { ok: true, content: 'Killed.', facts: { exitCode: null } }, /Killed/],
  ] as const)(
    'fails if a required step %s, and continues after it if it succeeds',
    async (_how, outcome, message) => {
      const plan = scripted([{ ...read('a'), required: true }, read('b')])
      const failing = await anAgent(plan, { callTool: async () => outcome })
      const succeeding = await anAgent(plan, {
        callTool: async () => ({ ok: true, content: '', facts: { exitCode: 0 } }),
      })

      const { result } = await runTurn(failing.agent)
      const control = await runTurn(succeeding.agent)

      expect(result).toEqual({
        state: 'failed',
        code: 'agent_failed',
        message: expect.stringMatching(message),
      })
      expect(failing.calls).toHaveLength(1)
      expect(control.result).toEqual({ state: 'completed' })
      expect(succeeding.calls).toHaveLength(2)
    },
  )

  it('continues after a refusal', async () => {
    const { agent, calls } = await anAgent(scripted([read('../etc/passwd'), read('b')]), {
      callTool: async () => ({ ok: false, code: 'path_outside', message: 'no' }),
    })

    const { result } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(calls).toHaveLength(2)
  })

  it.each([
    ['a wait', { kind: 'wait', ms: 600_000 } as const],
    ['an open call', read('a')],
  ])('is cancelled during %s', async (_what, step) => {
    const { agent } = await anAgent(scripted([say('begun'), step, say('never')]), {
      callTool: () => new Promise(() => undefined),
    })
    const cancel = new AbortController()
    const texts: string[] = []
    const turn = agent.runTurn({
      turnId: 'turn',
      prompt: '',
      signal: cancel.signal,
      emit: (event) => texts.push(event.type),
    })
    await until('the agent has begun', () => texts.length > 0)

    cancel.abort()

    expect(await turn).toEqual({ state: 'cancelled' })
    expect(texts).toEqual(['agent.message.delta', 'agent.message'])
  })

  it('keeps its position in the plan in a session', async () => {
    const config = scripted([say('first')], [say('second')])
    const first = await anAgent(config)
    await runTurn(first.agent)

    const second = await anAgent(config, { sessionFiles: await first.agent.exportSession() })

    expect(streamed((await runTurn(second.agent)).events)).toBe('second')
  })
})

describe('a suspended turn of the scripted agent', () => {
  const config = scripted([say('begun'), read('a'), read('b'), say('over')], [say('the next turn')])

  it('continues with the open call under its id, and then with the next steps', async () => {
    const { sessionFiles } = await suspend(config, { waiting: ['read_file'] })

    const { agent, desk } = await restore(config, sessionFiles, { answers: { read_file: ok('') } })
    const turn = startTurn(agent, { turnId: 't1', resumes: true })
    const result = await turn.result
    const next = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(desk.calls).toEqual([
      { callId: 't1.1', tool: 'read_file', arguments: { path: 'a' } },
      { callId: 't1.g2.1', tool: 'read_file', arguments: { path: 'b' } },
    ])
    expect(streamed(turn.events)).toBe('over')
    expect(streamed(next.events)).toBe('the next turn')
  })

  it('repeats the interrupted step with a new id if the turn is sent again', async () => {
    const { sessionFiles } = await suspend(config, { waiting: ['read_file'] })

    const { agent, desk } = await restore(config, sessionFiles, { answers: { read_file: ok('') } })
    const suspendedTurn = agent.suspendedTurn
    await startTurn(agent, { turnId: 't1' }).result

    expect(suspendedTurn).toBe('t1')
    expect(desk.calls.map(({ callId }) => callId)).toEqual(['t1.g2.1', 't1.g2.2'])
  })

  it('is over if another turn starts, which continues with the next list of steps', async () => {
    const { sessionFiles } = await suspend(config, { waiting: ['read_file'] })

    const { agent, desk } = await restore(config, sessionFiles)
    const turn = startTurn(agent, { turnId: 't2' })
    const result = await turn.result

    expect(result).toEqual({ state: 'completed' })
    expect(desk.calls).toEqual([])
    expect(streamed(turn.events)).toBe('the next turn')
  })

  it('is not exported between its calls', async () => {
    const waits = scripted([{ kind: 'wait', ms: 600_000 }])
    const { agent } = await anAgent(waits)
    startTurn(agent, { turnId: 't1' })

    await expect(agent.exportSession()).rejects.toMatchObject({ code: 'conflict' })
  })
})

describe('an unknown kind of agent', () => {
  it('is rejected by name', async () => {
    await expect(anAgent({ kind: 'none' })).rejects.toThrow('none')
  })
})
