import { describe, expect, it } from 'vitest'
import type { ModelReply, ModelToolCall } from '../fakes/model-server.ts'
import { textOf } from '../fakes/model-server.ts'
import { aModel, anAgent, endpoint, runTurn } from './agent-rig.ts'

const GOOD: ModelToolCall = { name: 'create', arguments: { path: 'a', file_text: '' } }

/** Runs one turn of a model that gives this answer first. */
async function afterAnswer(reply: ModelReply) {
  const server = await aModel((_request, index) => (index === 0 ? reply : { text: 'ok' }))
  const { agent, calls, rejected } = await anAgent(endpoint(server))
  const { result, events } = await runTurn(agent)
  return { calls, rejected, result, events, server }
}

describe('an invalid call of the model', () => {
  it.for([
    ['cut JSON', { name: 'create', arguments: '{"path": "a' }, 'create', null, /not JSON/],
    ['an array of arguments', { name: 'create', arguments: '[1]' }, 'create', null, /JSON object/],
    [
      'an unknown tool',
      { name: 'frobnicate', arguments: { a: 1 } },
      'frobnicate',
      { a: 1 },
      /does not exist/,
    ],
    ['a native tool', { name: 'bash', arguments: { command: 'id' } }, 'bash', { command: 'id' }, /not exist/],
    ['no name', { name: '', arguments: {} }, 'invalid_tool_call', {}, /name is missing/],
    ['a long name', { name: 'n'.repeat(300), arguments: {} }, 'n'.repeat(128), {}, /does not exist/],
  ] as const)('is recorded with %s, and the turn goes on', async (row) => {
    const [, call, tool, args, message] = row
    const { calls, rejected, result, server } = await afterAnswer({ toolCalls: [call] })

    expect(result).toEqual({ state: 'completed' })
    expect(calls).toEqual([])
    expect(rejected).toEqual([
      {
        callId: expect.stringMatching(/\.1$/),
        tool,
        arguments: args,
        code: 'unusable_call',
        message: expect.stringMatching(message),
      },
    ])
    expect(server.requests.at(-1)?.messages.at(-1)?.role, 'the model is told').toBe('tool')
  })

  it.each([
    ['an id of its own', 'call_b'],
    ['the id of the other call', 'call_a'],
  ])('is recorded in addition to a valid call in the same answer, under %s', async (_what, id) => {
    const { calls, rejected } = await afterAnswer({
      toolCalls: [
        { ...GOOD, id: 'call_a' },
        { name: 'frobnicate', arguments: {}, id },
      ],
    })

    // If two calls have one id, the agent runtime executes the first one twice: each is decided separately.
    expect(calls).toHaveLength(id === 'call_a' ? 2 : 1)
    expect(rejected).toHaveLength(id === 'call_a' ? 0 : 1)
    expect(new Set([...calls, ...rejected].map(({ callId }) => callId)).size).toBe(2)
  })

  it('is not recorded for a valid call that was refused', async () => {
    const server = await aModel((_request, index) => (index === 0 ? { toolCalls: [GOOD] } : { text: 'ok' }))
    const { agent, rejected } = await anAgent(endpoint(server), {
      callTool: async () => ({ ok: false, code: 'denied', message: 'no' }),
    })

    await runTurn(agent)

    expect(textOf(server.requests.at(-1)?.messages.at(-1))).toContain('denied: no')
    expect(rejected).toEqual([])
  })

  it('is shown without arguments that are too long for an event', async () => {
    const { rejected } = await afterAnswer({
      toolCalls: [{ name: 'frobnicate', arguments: { a: 'x'.repeat(100_000) } }],
    })

    expect(rejected).toMatchObject([{ tool: 'frobnicate', arguments: null }])
  })
})

describe('a model that refuses', () => {
  it('is shown with its text, and the turn fails with it', async () => {
    const { result, events } = await afterAnswer({ refusal: 'I will not do that.' })

    expect(events).toContainEqual({
      type: 'agent.message',
      data: { messageId: expect.any(String), text: 'I will not do that.', refusal: true },
    })
    expect(result).toEqual({
      state: 'failed',
      code: 'agent_failed',
      message: expect.stringContaining('The model refused: I will not do that.'),
    })
  })

  it('is shown in addition to its other text', async () => {
    const { result, events } = await afterAnswer({ text: 'Hm.', refusal: 'Not that.' })

    const said = events.flatMap(({ type, data }) => (type === 'agent.message' ? [data] : []))
    expect(said).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ text: 'Hm.' }),
        expect.objectContaining({ text: 'Not that.', refusal: true }),
      ]),
    )
    expect(result).toEqual({ state: 'completed' })
  })
})
