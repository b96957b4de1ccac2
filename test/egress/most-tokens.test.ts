import { expect, it } from 'vitest'
import { mostTokens, TOKEN_ESTIMATES } from '../../runtime/egress/model/most-tokens.ts'

const CHAT = 'POST /chat/completions'
const most = (body: Record<string, unknown>, endpoint: Parameters<typeof mostTokens>[1] = CHAT) => {
  const found = mostTokens({ model: 'm', messages: [], ...body }, endpoint)
  if (!found.ok) throw new Error(found.reason)
  return found
}

it('adds the largest maximum of a request to an estimate of its input, once for each answer', () => {
  const { input } = most({ max_tokens: 100 })
  expect(input).toBeGreaterThan(0)
  expect(most({ max_tokens: 100 })).toMatchObject({ total: input + 100, isBounded: true })
  const both = most({ max_tokens: 100, max_completion_tokens: 700 })
  expect(both.total - both.input).toBe(700)
  const many = most({ max_tokens: 100, n: 100 })
  expect(many.total - many.input).toBe(10_000)
  const response = most({ max_output_tokens: 9 }, 'POST /responses')
  expect(response.total - response.input).toBe(9)
})

it('takes a default for a request without a maximum, also for one that is null', () => {
  for (const body of [{}, { max_tokens: null }, { n: null }]) {
    const { input, total, isBounded } = most(body)
    expect(total - input).toBe(TOKEN_ESTIMATES.answerTokens)
    expect(isBounded).toBe(false)
  }
  const embedding = most({ input: 'x'.repeat(300) }, 'POST /embeddings')
  expect(embedding.total).toBe(embedding.input)
})

it('grows with the text of the input, and counts an image as one', () => {
  const text = most({ messages: [{ role: 'user', content: 'x'.repeat(30_000) }] })
  expect(text.input).toBeGreaterThan(10_000)
  const url = `data:image/png;base64,${'A'.repeat(3_000_000)}`
  const image = most({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] })
  expect(image.input).toBeGreaterThan(TOKEN_ESTIMATES.tokensPerImage)
  expect(image.input).toBeLessThan(2 * TOKEN_ESTIMATES.tokensPerImage)
})

it.each([
  ['n', '100'],
  ['n', 0],
  ['n', 1.5],
  ['n', [100]],
  ['max_tokens', -1],
  ['max_tokens', '5'],
  ['max_tokens', 0],
  ['max_tokens', 1e300],
  ['max_completion_tokens', true],
])('refuses %s of %j, which servers read in different ways', (key, value) => {
  expect(mostTokens({ model: 'm', [key]: value }, CHAT)).toEqual({
    ok: false,
    reason: `"${key}" is not a whole number of at least 1`,
  })
})

it('refuses a product that is no number any more', () => {
  expect(mostTokens({ n: 2 ** 40, max_tokens: 2 ** 40 }, CHAT).ok).toBe(false)
})
