import { describe, expect, it } from 'vitest'
import type { ModelReply, ModelToolCall } from '../fakes/model-server.ts'
import { textOf } from '../fakes/model-server.ts'
import { aModel, anAgent, endpoint, runTurn } from './agent-rig.ts'

const GOOD: ModelToolCall = { name: 'create', arguments: { path: 'a', file_text: '' } }

/** Runs one turn of a model that gives this answer first, and then another one. */
async function afterAnswer(reply: ModelReply, then: ModelReply = { text: 'ok' }) {
  const server = await aModel((_request, index) => (index === 0 ? reply : then))
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

describe('a model that makes only calls that cannot be carried out', () => {
  const UNKNOWN: ModelToolCall = { name: 'frobnicate', arguments: {} }
  const CUT: ModelToolCall = { name: 'create', arguments: '{"path": "a' }

  it('ends the turn after three such responses in a row and records each call', async () => {
    const server = await aModel((_request, index) => ({ toolCalls: [index === 2 ? CUT : UNKNOWN] }))
    const { agent, rejected } = await anAgent(endpoint(server))

    const { result } = await runTurn(agent)

    expect(result).toEqual({
      state: 'failed',
      code: 'ended_without_outcome',
      message: expect.stringMatching(/3 answers in a row; the last one was to "create"/),
    })
    expect(rejected.map(({ tool }) => tool)).toEqual(['frobnicate', 'frobnicate', 'create'])
  })

  it('continues if one of its calls in between can be carried out', async () => {
    const replies: ModelReply[] = [UNKNOWN, UNKNOWN, GOOD, UNKNOWN, UNKNOWN].map((call) => ({
      toolCalls: [call],
    }))
    const server = await aModel((_request, index) => replies[index] ?? { text: 'ok' })
    const { agent, rejected } = await anAgent(endpoint(server))

    const { result } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(rejected).toHaveLength(4)
  })
})

describe('an answer that the model did not complete', () => {
  const REPORT: ModelToolCall = { name: 'report_outcome', arguments: { outcome: 'succeeded' } }

  it.each([
    ['cut off at its maximum length', { text: 'I will', finishReason: 'length' }, /maximum length/],
    ['cut off before its first word', { finishReason: 'length' }, /maximum length/],
    ['stopped by a content filter', { text: 'I w', finishReason: 'content_filter' }, /content filter/],
    ['filtered completely', { finishReason: 'content_filter' }, /content filter/],
  ] as const)('fails the turn if it was %s', async (_what, reply, message) => {
    const server = await aModel(() => reply)
    const { agent } = await anAgent(endpoint(server))

    const { result } = await runTurn(agent)

    expect(result).toEqual({
      state: 'failed',
      code: 'ended_without_outcome',
      message: expect.stringMatching(message),
    })
  })

  it('does not fail the turn if the agent had reported the outcome before', async () => {
    const { result } = await afterAnswer({ toolCalls: [REPORT] }, { text: 'An', finishReason: 'length' })

    expect(result).toEqual({ state: 'completed' })
  })

  it('does not fail the turn if the model continued it', async () => {
    const { result } = await afterAnswer({ text: 'One', finishReason: 'length' })

    expect(result).toEqual({ state: 'completed' })
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
