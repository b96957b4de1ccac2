import { describe, expect, it } from 'vitest'
import { type ModelReply, textOf } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { aModel, anAgent, endpoint, ok, runTurn } from './agent-rig.ts'
import { conversationOf, Desk, restore, startTurn, suspend } from './suspended-turns.ts'

const CREATE = { id: 'call_a', name: 'create', arguments: { path: 'a', file_text: 'x' } }

/** A model that makes calls in its first response, and sends text in each later one. */
const calling = (...toolCalls: NonNullable<Extract<ModelReply, { toolCalls?: unknown }>['toolCalls']>) =>
  aModel((_request, index) => (index === 0 ? { text: 'I will.', toolCalls } : { text: `answer ${index}` }))

describe('a turn of the Copilot agent that is suspended while a call waits', () => {
  it('continues in another process with the same call, and the model gets its result once', async () => {
    const server = await calling(CREATE)
    const { sessionFiles, desk, agent: left } = await suspend(endpoint(server), { waiting: ['create'] })
    await left.close()

    const { agent, desk: later } = await restore(endpoint(server), sessionFiles)
    const suspendedTurn = agent.suspendedTurn
    const turn = startTurn(agent, { turnId: 't1', resumes: true })
    await later.waitsFor('create')
    const asked = server.requests.length
    later.answer('t1.1', ok('created'))

    expect(await turn.result).toEqual({ state: 'completed' })
    expect(suspendedTurn).toBe('t1')
    expect(later.calls, 'the same call, with the same id').toEqual(desk.calls)
    expect(later.calls).toEqual([{ callId: 't1.1', tool: 'create', arguments: CREATE.arguments }])
    expect(asked, 'the model is asked when the call has ended').toBe(1)
    expect(conversationOf(server.requests.at(-1))).toEqual([
      'user: do it',
      'assistant call_a: I will.',
      'tool call_a: created',
    ])
    expect(turn.events).toContainEqual(
      expect.objectContaining({
        type: 'agent.message',
        data: expect.objectContaining({ text: 'answer 1' }),
      }),
    )
  })

  it('keeps the earlier turns of the conversation, and later turns follow', async () => {
    const server = await aModel((request, index) =>
      textOf(request.messages.at(-1)).includes('create it')
        ? { text: 'I will.', toolCalls: [CREATE] }
        : { text: `answer ${index}` },
    )
    const desk = new Desk()
    const first = await anAgent(endpoint(server), { callTool: desk.callTool })
    await runTurn(first.agent, 'remember the word heron')
    startTurn(first.agent, { turnId: 't2', prompt: 'create it' })
    await desk.waitsFor('create')
    const sessionFiles = await first.agent.exportSession()
    await first.agent.close()

    const { agent } = await restore(endpoint(server), sessionFiles, { answers: { create: ok('created') } })
    const resumed = await startTurn(agent, { turnId: 't2', resumes: true }).result
    const next = await startTurn(agent, { turnId: 't3', prompt: 'which word?' }).result

    expect([resumed, next]).toEqual([{ state: 'completed' }, { state: 'completed' }])
    expect(conversationOf(server.requests.at(-1))).toEqual([
      'user: remember the word heron',
      'assistant: answer 0',
      'user: create it',
      'assistant call_a: I will.',
      'tool call_a: created',
      'assistant: answer 2',
      'user: which word?',
    ])
  })

  it('gives new calls ids with the number of the sandbox', async () => {
    const server = await aModel((_request, index) =>
      index < 2 ? { toolCalls: [{ ...CREATE, id: `call_${index}` }] } : { text: 'done' },
    )
    const { sessionFiles } = await suspend(endpoint(server), { waiting: ['create'] })

    const { agent, desk } = await restore(endpoint(server), sessionFiles, {
      generation: 3,
      answers: { create: ok('created') },
    })
    await startTurn(agent, { turnId: 't1', resumes: true }).result
    await startTurn(agent, { turnId: 't2' }).result

    expect(desk.calls.map(({ callId }) => callId)).toEqual(['t1.1', 't1.g3.1'])
  })

  it('reports the denial to the model', async () => {
    const server = await calling(CREATE)
    const { sessionFiles } = await suspend(endpoint(server), { waiting: ['create'] })

    const { agent, rejected } = await restore(endpoint(server), sessionFiles, {
      answers: { create: { ok: false, code: 'denied', message: 'not today' } },
    })
    const result = await startTurn(agent, { turnId: 't1', resumes: true }).result

    expect(result).toEqual({ state: 'completed' })
    expect(conversationOf(server.requests.at(-1)).at(-1)).toBe('tool call_a: denied: not today')
    expect(rejected, 'it is not taken for a call that cannot be carried out').toEqual([])
  })

  it('can be suspended a second time in the next sandbox, before and after the call is made again', async () => {
    const server = await calling(CREATE)
    const { sessionFiles } = await suspend(endpoint(server), { waiting: ['create'] })
    const second = await restore(endpoint(server), sessionFiles)
    const beforeTheTurn = await second.agent.exportSession()
    startTurn(second.agent, { turnId: 't1', resumes: true })
    await second.desk.waitsFor('create')
    const inTheTurn = await second.agent.exportSession()
    await second.agent.close()

    for (const files of [beforeTheTurn, inTheTurn]) {
      const { agent, desk } = await restore(endpoint(server), files, {
        generation: 3,
        answers: { create: ok('created') },
      })
      const result = await startTurn(agent, { turnId: 't1', resumes: true }).result

      expect(result).toEqual({ state: 'completed' })
      expect(desk.calls.map(({ callId }) => callId)).toEqual(['t1.1'])
      expect(conversationOf(server.requests.at(-1))).toEqual([
        'user: do it',
        'assistant call_a: I will.',
        'tool call_a: created',
      ])
    }
  })

  it('is rejected if two open calls of the session have one id', async () => {
    const server = await calling(CREATE)
    const { sessionFiles } = await suspend(endpoint(server), { waiting: ['create'] })
    const meta = JSON.parse(Buffer.from(sessionFiles.get('session.json') ?? []).toString())
    meta.turn.openCalls.push({ ...meta.turn.openCalls[0], toolCallId: 'call_b' })
    const forged = new Map([...sessionFiles, ['session.json', Buffer.from(JSON.stringify(meta))]])

    await expect(restore(endpoint(server), forged)).rejects.toMatchObject({ code: 'configure_failed' })
  })

  it('drops the open call if the turn is sent again', async () => {
    const server = await calling(CREATE)
    const { sessionFiles } = await suspend(endpoint(server), { waiting: ['create'] })

    const { agent, desk } = await restore(endpoint(server), sessionFiles)
    const result = await startTurn(agent, { turnId: 't1', prompt: 'the sandbox was lost' }).result

    expect(result).toEqual({ state: 'completed' })
    expect(agent.suspendedTurn).toBeUndefined()
    expect(desk.calls).toEqual([])
    expect(conversationOf(server.requests.at(-1))).toEqual([
      'user: do it',
      'assistant call_a: I will.',
      expect.stringMatching(/^tool call_a: .*interrupted/),
      'user: the sandbox was lost',
    ])
  })

  it('is cancelled while the repeated call waits, and the next turn works', async () => {
    const server = await calling(CREATE)
    const { sessionFiles } = await suspend(endpoint(server), { waiting: ['create'] })
    const { agent, desk } = await restore(endpoint(server), sessionFiles)
    const turn = startTurn(agent, { turnId: 't1', resumes: true })
    await desk.waitsFor('create')

    turn.cancel()
    const result = await turn.result
    const next = await startTurn(agent, { turnId: 't2', prompt: 'once more' }).result

    expect([result, next]).toEqual([{ state: 'cancelled' }, { state: 'completed' }])
    expect(conversationOf(server.requests.at(-1)).at(-1)).toBe('user: once more')
  })

  it('is not exported while the model works', async () => {
    const server = await aModel(() => ({ hang: true }))
    const { agent } = await anAgent(endpoint(server))
    startTurn(agent, { turnId: 't1' })
    await until('the model is asked', () => server.requests.length > 0)

    await expect(agent.exportSession()).rejects.toMatchObject({ code: 'conflict' })
  })
})
