import { describe, expect, it } from 'vitest'
import { until } from '../helpers/until.ts'
import { budgetRig, CHAT, delta, event, json, stream, usage } from './model-budget-rig.ts'
import { type Answer, modelRig, tokenOf } from './model-rig.ts'

/** The estimate of the input is below this. */
const INPUT = 100

/** A client that reads a stream up to these words, and leaves. */
async function leaveAfter(words: string, { url, runId }: { url: string; runId: string }, body: unknown) {
  const leave = new AbortController()
  const response = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { authorization: `Bearer ${await tokenOf({ runId })}` },
    signal: leave.signal,
  })
  let text = ''
  for await (const piece of response.body ?? []) {
    text += Buffer.from(piece).toString()
    if (text.includes(words)) break
  }
  leave.abort()
}

describe('an answer', () => {
  const words = 'x'.repeat(3000)
  const chat = { ...CHAT, stream: true, max_tokens: 5000 }

  it('that the client leaves just before its usage counts by the text that it has', async () => {
    const place = await budgetRig(
      { tokens: 100_000 },
      stream((response) => void response.write(delta(words))),
    )
    await leaveAfter('xxx', place, chat)

    const { tokens = 0, model_requests } = await place.used(1)
    expect(model_requests).toBe(1)
    expect(tokens).toBeGreaterThan(1000)
    expect(tokens).toBeLessThan(1000 + INPUT)
    expect(await place.reserved()).toBe(0)
  })

  it('that the client leaves after the last event counts as the server says', async () => {
    const place = await budgetRig(
      { tokens: 100_000 },
      stream((response) => {
        response.write(delta(words) + event({ choices: [], usage: usage(18) }) + event('[DONE]'))
      }),
    )
    await leaveAfter('[DONE]', place, chat)
    expect(await place.used(1)).toEqual({ tokens: 18, model_requests: 1 })
  })

  it('that the client leaves after an early usage counts by its text too', async () => {
    const place = await budgetRig(
      { tokens: 100_000 },
      stream((response) => void response.write(event({ choices: [], usage: usage(3) }) + delta(words))),
    )
    await leaveAfter('xxx', place, chat)
    expect((await place.used(1)).tokens).toBeGreaterThan(1000)
  })

  it('that is cut before its first part counts as a whole', async () => {
    const silent = stream((response) => response.flushHeaders())
    const cut: Answer = (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 10_000 })
      response.write('{"choices":[{"message":{"content":"hal')
      setImmediate(() => response.destroy())
    }
    for (const answer of [cut, silent]) {
      const place = await budgetRig({ tokens: 100_000 }, answer)
      const leave = new AbortController()
      const asked = place.ask({ ...chat, stream: answer !== cut }, { signal: leave.signal }).then(
        () => 'an answer',
        () => 'cut',
      )
      await until('the server has it', () => place.requests.length === 1)
      if (answer !== cut) leave.abort()
      expect(await asked).toBe('cut')
      expect((await place.used(1)).tokens).toBeGreaterThan(5000)
    }
  })

  it('that the server cuts counts by its text, and not more than its maximum', async () => {
    const place = await budgetRig(
      { tokens: 100_000 },
      stream((response) => {
        response.write(delta(words))
        setImmediate(() => response.destroy())
      }),
    )
    await expect(place.ask({ ...chat, max_tokens: 400 })).rejects.toThrow()
    const { tokens = 0 } = await place.used(1)
    expect(tokens).toBeGreaterThan(400)
    expect(tokens).toBeLessThan(400 + INPUT)
  })

  it.each([
    ['0', usage(0)],
    ['a negative number', { prompt_tokens: 5, completion_tokens: -5000, total_tokens: -4995 }],
    ['a huge number', usage(1e18)],
    ['NaN', 'NaN'],
    ['missing', undefined],
  ])('with a usage that is %s counts by its text', async (_name, lie) => {
    const last =
      lie === 'NaN'
        ? 'data: {"choices":[],"usage":{"total_tokens":NaN}}\n\n'
        : event({ choices: [], usage: lie })
    const place = await budgetRig(
      { tokens: 100_000 },
      stream((response) => response.end(delta(words) + last + event('[DONE]'))),
    )
    expect((await place.ask(chat)).status).toBe(200)
    const { tokens = 0 } = await place.used(1)
    expect(tokens).toBeGreaterThan(1000)
    expect(tokens).toBeLessThan(1000 + INPUT)
    expect(place.ended).toEqual([])
  })

  it('with its usage twice counts once', async () => {
    const place = await budgetRig(
      { tokens: 1000 },
      stream((response) =>
        response.end(event({ choices: [], usage: usage(40) }).repeat(2) + event('[DONE]')),
      ),
    )
    await place.ask({ ...chat, max_tokens: 100 })
    expect(await place.used(1)).toEqual({ tokens: 40, model_requests: 1 })
  })
})

it('counts the requests of a run without a budget, and changes and refuses none', async () => {
  const answer = json({ choices: [], usage: usage(60) })
  const { ask, requests, reports } = await modelRig({ hasKey: false, answer })
  const body = { ...CHAT, stream: true, max_tokens: -1 }

  expect((await ask(body)).status).toBe(200)

  expect(requests[0]?.body).toBe(JSON.stringify(body))
  await until('it is counted', () => reports.some(({ type }) => type === 'model-use'))
  expect(reports).toContainEqual(
    expect.objectContaining({ type: 'model-use', data: { requests: 1, tokens: 60 } }),
  )
})
