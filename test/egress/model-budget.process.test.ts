import { describe, expect, it } from 'vitest'
import { until } from '../helpers/until.ts'
import { budgetRig, CHAT, delta, event, json, stream, usage } from './model-budget-rig.ts'
import { modelRig } from './model-rig.ts'

const errorOf = (text: string) => JSON.parse(text).error as { message: string; code: string }

describe('a request of a run with a budget', () => {
  it('counts as the server says, and nothing stays reserved', async () => {
    const { ask, used, reserved, requests } = await budgetRig(
      { tokens: 1000 },
      json({ choices: [], usage: usage(60) }),
    )

    expect((await ask({ ...CHAT, max_tokens: 200 })).status).toBe(200)

    expect(await used(1)).toEqual({ tokens: 60, model_requests: 1 })
    expect(await reserved()).toBe(0)
    expect(requests[0]?.body, 'the body is not changed').toBe(JSON.stringify({ ...CHAT, max_tokens: 200 }))
  })

  it('that may use more than is left is refused before it is sent, with a sentence, and ends the run', async () => {
    const { ask, used, requests, ended, ending, denied, runId } = await budgetRig(
      { tokens: 1000 },
      json({ choices: [], usage: usage(300) }),
    )
    expect((await ask({ ...CHAT, max_tokens: 500 })).status).toBe(200)
    await used(1)

    const refused = await ask({ ...CHAT, max_tokens: 750 })

    expect(refused.status).toBe(402)
    expect(errorOf(refused.text)).toMatchObject({
      code: 'budget',
      message: expect.stringMatching(
        /may use 1000 tokens \(budget tokens\), has used 300, and this request may use 7\d\d\. .*--budget tokens=N/,
      ),
    })
    expect(requests).toHaveLength(1)
    expect(ended).toEqual([`${runId} budget_exceeded`])
    expect(await ending()).toMatchObject({
      code: 'budget_exceeded',
      message: expect.stringMatching(
        /has used 300 of its budget tokens of 1000, and the next .* may use 7\d\d/,
      ),
    })
    expect(denied()).toMatchObject([{ rule: 'budget', path: '/model/v1/chat/completions' }])
    const after = await ask({ ...CHAT, max_tokens: 1 })
    expect(errorOf(after.text)).toMatchObject({ code: 'run-ended' })
    expect(requests).toHaveLength(1)
  })

  it('fits alone and not together with another one: it is refused, and the run goes on', async () => {
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    const { ask, requests, ended, used } = await budgetRig({ tokens: 1000 }, (request, response) => {
      void mayEnd.then(() => json({ choices: [], usage: usage(50) })(request, response))
    })
    const body = { ...CHAT, max_tokens: 600 }

    const both = [ask(body), ask(body)]
    const first = await Promise.race(both)
    await until('the server has one request', () => requests.length === 1)
    end()
    const answers = await Promise.all(both)

    expect(first.status).toBe(429)
    expect(errorOf(first.text).message).toMatch(/6\d\d are reserved by requests in progress.*Wait for/)
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 429])
    expect(requests).toHaveLength(1)
    await used(2 - 1)
    expect(ended).toEqual([])
    expect((await ask(body)).status, 'it fits when the other one has ended').toBe(200)
  })

  it('counts every answer that it asks for', async () => {
    const { ask, requests } = await budgetRig({ tokens: 5000 }, json({ choices: [], usage: usage(1) }))

    expect((await ask({ ...CHAT, max_tokens: 1000, n: 4 })).status).toBe(200)
    const refused = await ask({ ...CHAT, max_tokens: 1000, n: 100 })

    expect(errorOf(refused.text).message).toMatch(/this request may use 1000\d\d/)
    expect(requests).toHaveLength(1)
  })

  it('names no maximum, or one that servers read in different ways', async () => {
    const { ask, requests, reserved, ended } = await budgetRig({ tokens: 20_000 }, (_request, response) => {
      response.flushHeaders()
    })
    for (const body of [{ max_tokens: -1 }, { n: '100' }, { max_completion_tokens: 1e99 }]) {
      const refused = await ask({ ...CHAT, ...body })
      expect(refused.status).toBe(400)
      expect(errorOf(refused.text).message).toMatch(/is not a whole number/)
    }
    expect(requests).toEqual([])
    expect(ended).toEqual([])

    const leave = new AbortController()
    const left = expect(ask(CHAT, { signal: leave.signal })).rejects.toThrow(/abort/)
    await until('the server has it', () => requests.length === 1)
    expect(await reserved()).toBeGreaterThan(16_384)
    leave.abort()
    await left
  })

  it('asks for the usage of a stream of chat completions, and keeps the options of the client', async () => {
    const { ask, requests, used } = await budgetRig(
      { tokens: 100_000 },
      stream((response) =>
        response.end(delta('hi') + event({ choices: [], usage: usage(12) }) + event('[DONE]')),
      ),
    )
    const answer = await ask({ ...CHAT, stream: true, stream_options: { chunk_include_usage: true } })

    expect(JSON.parse(requests[0]?.body ?? '')).toEqual({
      ...CHAT,
      stream: true,
      stream_options: { chunk_include_usage: true, include_usage: true },
    })
    expect(answer.text).toContain('"total_tokens":12')
    expect(await used(1)).toEqual({ tokens: 12, model_requests: 1 })
    await ask({ model: 'm', input: 'hello', stream: true }, { path: '/responses' })
    expect(requests[1]?.body).not.toContain('stream_options')
  })

  it('ends the run when an answer has used up the budget', async () => {
    const { ask, used, ended, runId, store } = await budgetRig(
      { tokens: 1000 },
      json({ choices: [], usage: usage(1000) }),
    )
    await ask({ ...CHAT, max_tokens: 500 })
    expect(await used(1)).toEqual({ tokens: 1000, model_requests: 1 })
    expect(ended).toEqual([`${runId} budget_exceeded`])
    const events = await store.readEvents(runId, 0, 100)
    expect(events.map(({ event }) => event)).toContainEqual({
      type: 'run.budget',
      data: { kind: 'tokens', used: 1000, limit: 1000 },
    })
  })

  it('counts against the number of requests, but not if the server refuses it or cannot be reached', async () => {
    let status = 500
    const { ask, used, ended, requests, apply, state } = await budgetRig(
      { model_requests: 2 },
      (request, response) => json({ choices: [], usage: usage(5) }, status)(request, response),
    )
    expect((await ask(CHAT)).status).toBe(500)
    expect(await used(1)).toEqual({ tokens: 0, model_requests: 0 })
    await apply(state({ isMetered: true, upstream: 'http://server.example.test:9/v1' }))
    expect((await ask(CHAT)).status).toBe(502)
    expect(await used(2)).toEqual({ tokens: 0, model_requests: 0 })
    await apply(state({ isMetered: true }))
    status = 200
    expect((await ask(CHAT)).status).toBe(200)
    expect(await used(3)).toEqual({ tokens: 5, model_requests: 1 })
    expect(ended).toEqual([])
    expect((await ask(CHAT)).status).toBe(200)
    await used(4)
    expect(ended).toHaveLength(1)
    expect(errorOf((await ask(CHAT)).text)).toMatchObject({ code: 'run-ended' })
    expect(requests).toHaveLength(3)
  })

  it('counts as a whole if its use was not reported in time', async () => {
    const { ask, store, runId, used } = await budgetRig(
      { tokens: 1000 },
      json({ choices: [], usage: usage(5) }),
    )
    const id = crypto.randomUUID()
    await store.transaction((tx) => tx.insertReservation({ id, runId, tokens: 300 }, 0))

    expect((await ask({ ...CHAT, max_tokens: 10 })).status).toBe(200)

    expect(await used(1)).toEqual({ tokens: 305, model_requests: 2 })
  })

  it('is not sent if the budget cannot be read', async () => {
    const { ask, requests } = await modelRig({
      hasKey: false,
      route: { isMetered: true },
      reserve: () => Promise.reject(new Error('the store broke')),
    })
    const refused = await ask(CHAT)
    expect(refused.status).toBe(503)
    expect(errorOf(refused.text).message).toMatch(/counts the budgets .* cannot be reached.*Try again/)
    const without = await modelRig({ hasKey: false, route: { isMetered: true } })
    expect((await without.ask(CHAT)).status).toBe(503)
    expect([...requests, ...without.requests]).toEqual([])
  })
})
