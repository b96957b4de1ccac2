import { describe, expect, it } from 'vitest'
import type { ModelReply, ModelToolCall } from '../fakes/model-server.ts'
import { aModel, endpoint, ok } from './agent-rig.ts'
import { conversationOf, restore, startTurn, suspend } from './suspended-turns.ts'

const create: ModelToolCall = { id: 'call_a', name: 'create', arguments: { path: 'a', file_text: 'x' } }
const edit: ModelToolCall = {
  id: 'call_b',
  name: 'edit',
  arguments: { path: 'b', old_str: 'x', new_str: 'y' },
}
const read: ModelToolCall = { id: 'call_c', name: 'read_file', arguments: { path: 'c' } }
const unknown: ModelToolCall = { id: 'call_d', name: 'frobnicate', arguments: { d: 1 } }
const noJson: ModelToolCall = { id: 'call_e', name: 'create', arguments: '{"path": "a' }
const noObject: ModelToolCall = { id: 'call_f', name: 'create', arguments: '[1]' }
const question: ModelToolCall = { id: 'call_g', name: 'ask_question', arguments: { question: 'Which?' } }

const answering = async (...toolCalls: ModelToolCall[]) => {
  const server = await aModel(
    (_request, index): ModelReply => (index === 0 ? { toolCalls } : { text: `answer ${index}` }),
  )
  return { server, config: endpoint(server) }
}

describe('a response with several calls, one of them waiting when the turn is suspended', () => {
  it.each([
    ['first', [create, edit, read]],
    ['last', [edit, read, create]],
  ])('keeps the results of calls that ended, if the waiting one is the %s', async (_which, toolCalls) => {
    const { server, config } = await answering(...toolCalls)
    const { sessionFiles, agent: left } = await suspend(config, {
      waiting: ['create'],
      answers: { edit: ok('edited'), read_file: { ok: false, code: 'denied', message: 'not this file' } },
    })
    await left.close()

    const { agent, desk, rejected } = await restore(config, sessionFiles, {
      answers: { create: ok('created') },
    })
    const result = await startTurn(agent, { turnId: 't1', resumes: true }).result

    expect(result).toEqual({ state: 'completed' })
    expect(
      desk.calls.map(({ tool }) => tool),
      'only the call that waited is made again',
    ).toEqual(['create'])
    expect(conversationOf(server.requests.at(-1)).slice(2).toSorted()).toEqual([
      'tool call_a: created',
      'tool call_b: edited',
      'tool call_c: denied: not this file',
    ])
    expect(rejected).toEqual([])
  })

  it('keeps results of ended calls if the turn is sent again', async () => {
    const { server, config } = await answering(create, edit)
    const { sessionFiles } = await suspend(config, { waiting: ['create'], answers: { edit: ok('edited') } })

    const { agent } = await restore(config, sessionFiles)
    await startTurn(agent, { turnId: 't1', prompt: 'again' }).result

    expect(conversationOf(server.requests.at(-1)).slice(2)).toEqual([
      'tool call_b: edited',
      expect.stringMatching(/^tool call_a: .*interrupted/),
      'user: again',
    ])
  })

  it('records a call of an unknown tool once, in the sandbox that continues', async () => {
    const { server, config } = await answering(create, unknown)
    const { sessionFiles } = await suspend(config, { waiting: ['create'] })

    const { agent, desk, rejected } = await restore(config, sessionFiles, {
      answers: { create: ok('created') },
    })
    const result = await startTurn(agent, { turnId: 't1', resumes: true }).result

    expect(result).toEqual({ state: 'completed' })
    expect(desk.calls).toHaveLength(1)
    expect(rejected).toEqual([
      {
        callId: 't1.g2.1',
        tool: 'frobnicate',
        arguments: { d: 1 },
        code: 'unusable_call',
        message: expect.stringContaining("Tool 'frobnicate' does not exist"),
      },
    ])
    expect(conversationOf(server.requests.at(-1)).toSorted()).toContainEqual(
      expect.stringMatching(/^tool call_d: .*'frobnicate' does not exist/),
    )
  })

  it('keeps the error of a call whose arguments are not JSON', async () => {
    const { server, config } = await answering(create, noJson)
    const { sessionFiles } = await suspend(config, { waiting: ['create'] })

    const { agent } = await restore(config, sessionFiles, { answers: { create: ok('created') } })
    const result = await startTurn(agent, { turnId: 't1', resumes: true }).result

    expect(result).toEqual({ state: 'completed' })
    expect(conversationOf(server.requests.at(-1)).slice(2).toSorted()).toEqual([
      'tool call_a: created',
      expect.stringMatching(/^tool call_e: .*JSON/),
    ])
  })

  it.each([
    ['a call whose arguments are no object', [create, noObject]],
    ['two calls under one id', [create, { ...edit, id: 'call_a' }]],
  ])('is not exported beside %s', async (_what, toolCalls) => {
    const { server, config } = await answering(...toolCalls)

    const suspended = suspend(config, { waiting: ['create'] })

    await expect(suspended).rejects.toMatchObject({ code: 'conflict' })
    expect(server.requests).toHaveLength(1)
  })
})

describe('a response with two waiting calls', () => {
  it('continues with both, in any order of the decisions', async () => {
    const { server, config } = await answering(create, edit)
    const { sessionFiles, desk: before } = await suspend(config, { waiting: ['create', 'edit'] })

    const { agent, desk } = await restore(config, sessionFiles)
    const turn = startTurn(agent, { turnId: 't1', resumes: true })
    await desk.waitsFor('create', 'edit')
    desk.answer(before.idOf('edit'), { ok: false, code: 'denied', message: 'no' })
    desk.answer(before.idOf('create'), ok('created'))

    expect(await turn.result).toEqual({ state: 'completed' })
    expect(new Set(desk.calls)).toEqual(new Set(before.calls))
    expect(conversationOf(server.requests.at(-1)).slice(2).toSorted()).toEqual([
      'tool call_a: created',
      'tool call_b: denied: no',
    ])
  })

  it('is suspended again after one of them was decided', async () => {
    const { server, config } = await answering(create, edit)
    const { sessionFiles, desk: first } = await suspend(config, { waiting: ['create', 'edit'] })
    const second = await restore(config, sessionFiles, { answers: { create: ok('created') } })
    startTurn(second.agent, { turnId: 't1', resumes: true })
    await second.desk.waitsFor('edit')
    const again = await second.agent.exportSession()
    await second.agent.close()

    const { agent, desk } = await restore(config, again, { generation: 3, answers: { edit: ok('edited') } })
    const result = await startTurn(agent, { turnId: 't1', resumes: true }).result

    expect(result).toEqual({ state: 'completed' })
    expect(desk.calls.map(({ callId }) => callId)).toEqual([first.idOf('edit')])
    expect(conversationOf(server.requests.at(-1)).slice(2).toSorted()).toEqual([
      'tool call_a: created',
      'tool call_b: edited',
    ])
  })
})

it('a question that waits is asked again under its id, and the model gets the answer', async () => {
  const { server, config } = await answering(question)
  const { sessionFiles } = await suspend(config, { waiting: ['ask_question'] })

  const { agent, desk } = await restore(config, sessionFiles)
  const turn = startTurn(agent, { turnId: 't1', resumes: true })
  await desk.waitsFor('ask_question')
  desk.answer('t1.1', ok('the second'))

  expect(await turn.result).toEqual({ state: 'completed' })
  expect(conversationOf(server.requests.at(-1)).at(-1)).toBe('tool call_g: the second')
})
