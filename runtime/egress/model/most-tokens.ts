import type { ModelEndpoint } from './route.ts'

type Json = Readonly<Record<string, unknown>>

/** How many tokens a request may use, where the request does not say so. */
export const TOKEN_ESTIMATES = {
  /** Text of programs has about 3.5 bytes per token, and prose about 4. */
  bytesPerToken: 3,
  /** An image in the highest resolution that the common models accept. */
  tokensPerImage: 4096,
  /** The answer to a request without a maximum. */
  answerTokens: 16_384,
} as const

export type MostTokens =
  | {
      readonly ok: true
      readonly input: number
      readonly total: number
      /** The server enforces the maximum, because the request names it. */
      readonly isBounded: boolean
    }
  | { readonly ok: false; readonly reason: string }

const MAXIMA = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const

/**
 * The most tokens that a request may use: an estimate of its input, and the maximum of each response. A number in
 * another form is refused, because servers read "100", 1e2 and -1 in different ways.
 */
export function mostTokens(body: Json, endpoint: ModelEndpoint): MostTokens {
  const input = inputTokens(body)
  if (endpoint === 'POST /embeddings') return { ok: true, input, total: input, isBounded: true }
  const counts = [...MAXIMA, 'n'].map((key) => [key, body[key] ?? undefined] as const)
  const wrong = counts.find(([, count]) => count !== undefined && !isCount(count))
  if (wrong) return { ok: false, reason: `"${wrong[0]}" is not a whole number of at least 1` }
  const { n = 1, ...maxima } = Object.fromEntries(counts) as Readonly<Record<string, number | undefined>>
  const given = Object.values(maxima).filter((maximum) => maximum !== undefined)
  const perAnswer = given.length === 0 ? TOKEN_ESTIMATES.answerTokens : Math.max(...given)
  const total = input + n * perAnswer
  return Number.isSafeInteger(total)
    ? { ok: true, input, total, isBounded: given.length > 0 }
    : { ok: false, reason: 'it asks for too many tokens' }
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 1

/** Images are not counted by their bytes, which say little about their tokens. */
function inputTokens(body: Json): number {
  const { bytesPerToken, tokensPerImage } = TOKEN_ESTIMATES
  let images = 0
  const text = JSON.stringify(body, (_key, value: unknown) => {
    if (typeof value !== 'string' || !value.startsWith('data:image/')) return value
    images += 1
    return ''
  })
  return Math.ceil(Buffer.byteLength(text) / bytesPerToken) + images * tokensPerImage
}
