import { TOKEN_ESTIMATES } from './most-tokens.ts'

/** A longer line of a stream, or a longer answer, is not searched for its usage. */
const MAX_BYTES = 4 * 1024 ** 2
/** No model has such an answer. A larger number is a fault of the server. */
const MAX_TOKENS = 1_000_000_000
const DATA = 'data:'
/** The last event of a chat. A stream of the responses API ends with the whole response, and its usage. */
const DONE = '[DONE]'
/** Deltas are flat. A server could send levels without end. */
const MAX_LEVELS = 8

/** Reads an answer of a model server as it passes, and finds how many tokens it used. */
export class UsageReader {
  readonly #isStream: boolean
  #pieces: Buffer[] = []
  #kept = 0
  #bytes = 0
  /** Bytes of text in the events of a stream, and the events. */
  #text = 0
  #events = 0
  #tokens: number | undefined
  #isDone = false

  constructor(contentType: string | undefined) {
    this.#isStream = /^text\/event-stream\b/i.test(contentType ?? '')
  }

  add(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (!this.#isStream) {
      this.#keep(chunk)
      return
    }
    let start = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#keep(chunk.subarray(start, end))
      this.#readLine()
      start = end + 1
    }
    this.#keep(chunk.subarray(start))
  }

  /** After the last byte. */
  end(): void {
    if (this.#isStream) this.#readLine()
    else this.#find(this.#take())
    this.#isDone = true
  }

  /** Whether the answer was read to its end. A client may leave after the last event, before the stream ends. */
  get isDone(): boolean {
    return this.#isDone
  }

  /** The usage that the server has reported. */
  get tokens(): number | undefined {
    return this.#tokens
  }

  /** The tokens of the answer, from its bytes. Undefined if they say nothing, because the server sends an answer as a whole. */
  get estimate(): number | undefined {
    if (!this.#isStream)
      return this.#isDone ? Math.ceil(this.#bytes / TOKEN_ESTIMATES.bytesPerToken) : undefined
    if (this.#events === 0) return undefined
    return Math.max(this.#events, Math.ceil(this.#text / TOKEN_ESTIMATES.bytesPerToken))
  }

  #keep(chunk: Buffer): void {
    this.#kept += chunk.length
    if (this.#kept <= MAX_BYTES) this.#pieces.push(chunk)
    else this.#pieces = []
  }

  #take(): string {
    const text = this.#kept > MAX_BYTES ? '' : Buffer.concat(this.#pieces).toString('utf8')
    // Text of an answer that is too long to be read counts by its bytes.
    if (this.#kept > MAX_BYTES) this.#text += this.#kept
    this.#pieces = []
    this.#kept = 0
    return text
  }

  #readLine(): void {
    const line = this.#take()
    if (!line.startsWith(DATA)) return
    const data = line.slice(DATA.length).trim()
    if (data === DONE) this.#isDone = true
    else this.#find(data)
  }

  #find(text: string): void {
    const event = parsed(text)
    if (event === undefined) return
    this.#events += 1
    this.#text += textIn(event)
    const whole = tokensOf(inside(event['response'])?.['usage'])
    if (whole !== undefined) this.#isDone = true
    const used = whole ?? tokensOf(event['usage'])
    // Some servers report the sum so far with each event. The largest is the whole.
    if (used !== undefined) this.#tokens = Math.max(this.#tokens ?? 0, used)
  }
}

type Json = Readonly<Record<string, unknown>>

const inside = (value: unknown): Json | undefined =>
  typeof value === 'object' && value !== null ? (value as Json) : undefined

function parsed(text: string): Json | undefined {
  try {
    return inside(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** The usage in the form of each of the listed endpoints. Undefined for numbers that no answer can have. */
function tokensOf(usage: unknown): number | undefined {
  const of = inside(usage)
  if (!of) return undefined
  const counts = ['prompt_tokens', 'input_tokens', 'completion_tokens', 'output_tokens', 'total_tokens'].map(
    (key) => of[key] ?? 0,
  )
  if (!counts.every(isCount)) return undefined
  const [prompt = 0, input = 0, completion = 0, output = 0, total = 0] = counts
  const used = Math.max(prompt + input + completion + output, total)
  // A request has an input, so 0 is no count.
  return used > 0 && used <= MAX_TOKENS ? used : undefined
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** Bytes of the text in an event of a stream: `delta` of a response, and of each choice of a chat. */
function textIn({ delta, choices }: Json): number {
  const deltas = Array.isArray(choices) ? choices.map((choice) => inside(choice)?.['delta']) : []
  return [delta, ...deltas].reduce<number>((sum, one) => sum + stringBytes(one), 0)
}

function stringBytes(value: unknown, levels = MAX_LEVELS): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (levels === 0) return 0
  return Object.values(inside(value) ?? {}).reduce<number>(
    (sum, one) => sum + stringBytes(one, levels - 1),
    0,
  )
}
