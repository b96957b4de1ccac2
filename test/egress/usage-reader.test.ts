import { expect, it } from 'vitest'
import { UsageReader } from '../../runtime/egress/model/usage-reader.ts'

const delta = (content: string) => ({ choices: [{ index: 0, delta: { content } }] })
const event = (data: unknown) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }

/** Reads an answer in pieces of this many bytes. */
function read(text: string, { type = 'text/event-stream', bytes = 5, ends = true } = {}) {
  const reader = new UsageReader(type)
  const all = Buffer.from(text)
  for (let at = 0; at < all.length; at += bytes) reader.add(all.subarray(at, at + bytes))
  if (ends) reader.end()
  return { tokens: reader.tokens, estimate: reader.estimate, isDone: reader.isDone }
}

const json = (body: unknown) => read(JSON.stringify(body), { type: 'application/json; charset=utf-8' })

it.each([1, 7, 100_000])('finds the usage of a stream in pieces of %i bytes', (bytes) => {
  const stream = [delta('hello'), { choices: [], usage: USAGE }, '[DONE]'].map(event).join('')
  expect(read(stream, { bytes })).toMatchObject({ tokens: 18, isDone: true })
  expect(read(stream, { bytes, ends: false }), 'the client leaves after the last event').toMatchObject({
    tokens: 18,
    isDone: true,
  })
})

it('finds the usage of a response, with CRLF and with an event that has it twice', () => {
  const response = {
    type: 'response.completed',
    response: { usage: { input_tokens: 30, output_tokens: 12 } },
  }
  expect(read(event(response).replaceAll('\n', '\r\n'))).toMatchObject({ tokens: 42, isDone: true })
  expect(json({ usage: { input_tokens: 30, output_tokens: 12 } }).tokens).toBe(42)
  expect(json({ usage: { prompt_tokens: 9, total_tokens: 9 } }).tokens).toBe(9)
})

it('takes the largest usage of a stream that reports it several times, not the sum and not the last', () => {
  const stream = [
    { ...delta('a'), usage: { ...USAGE, completion_tokens: 1, total_tokens: 12 } },
    { choices: [], usage: USAGE },
    { choices: [], usage: { prompt_tokens: 1, completion_tokens: 0, total_tokens: 1 } },
  ]
  expect(read(stream.map(event).join('')).tokens).toBe(18)
})

it.each([
  ['0', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
  ['a negative number', { prompt_tokens: 11, completion_tokens: -900 }],
  ['a huge number', { prompt_tokens: 11, completion_tokens: 1e18 }],
  ['more than any answer has', { total_tokens: 2_000_000_000 }],
  ['NaN', 'NaN'],
  ['a fraction', { total_tokens: 1.5 }],
  ['a text', { total_tokens: '18' }],
  ['a list', [18]],
  ['null', null],
])('does not believe a usage that is %s', (_name, usage) => {
  const text =
    usage === 'NaN' ? '{"choices":[],"usage":{"total_tokens":NaN}}' : JSON.stringify({ choices: [], usage })
  expect(read(`${event(delta('hello'))}data: ${text}\n\n`).tokens).toBeUndefined()
  expect(read(event({ choices: [], usage: USAGE })).tokens).toBe(18)
})

it('finds no usage in the words of a model', () => {
  const words = 'data: {"usage":{"total_tokens":1}}\n\ndata: [DONE]\n\n'
  const stream = event(delta(words))
  expect(read(stream, { ends: false })).toMatchObject({ tokens: undefined, isDone: false })
  expect(json({ choices: [{ message: { content: words, usage: USAGE } }] }).tokens).toBeUndefined()
})

it('estimates a stream by its text, and by at least one token per event', () => {
  const text = 'x'.repeat(3000)
  expect(read(event(delta(text)), { ends: false }).estimate).toBe(1000)
  expect(read(event(delta('a')).repeat(50), { ends: false }).estimate).toBe(50)
  const call = { choices: [{ delta: { tool_calls: [{ function: { arguments: text } }] } }] }
  expect(read(event(call)).estimate).toBe(1000)
  expect(read(event({ type: 'response.output_text.delta', delta: text })).estimate).toBe(1000)
})

it('has no estimate of an answer that comes as a whole and was cut, or of a stream without an event', () => {
  const half = JSON.stringify({ choices: [{ message: { content: 'x'.repeat(900) } }] }).slice(0, 500)
  expect(read(half, { type: 'application/json', ends: false }).estimate).toBeUndefined()
  expect(read(': waiting\n\n', { ends: false }).estimate).toBeUndefined()
  expect(json({ choices: [{ message: { content: 'x'.repeat(900) } }] }).estimate).toBeGreaterThan(300)
})

it('survives a line without an end, and levels without an end', () => {
  const reader = new UsageReader('text/event-stream')
  const piece = Buffer.from('data: '.padEnd(1_000_000, 'x'))
  for (let count = 0; count < 8; count += 1) reader.add(piece)
  reader.add(Buffer.from(`\n${event({ choices: [], usage: USAGE })}`))
  reader.end()
  expect(reader.tokens).toBe(18)
  const deep = `{"choices":[{"delta":${'['.repeat(200_000)}${']'.repeat(200_000)}}]}`
  expect(read(event(deep), { bytes: 100_000 }).tokens).toBeUndefined()
})
