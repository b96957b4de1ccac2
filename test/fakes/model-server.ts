import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** One request of the chat completions API, as the client sent it. */
export interface ModelRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly model: string
  readonly stream: boolean
  readonly messages: readonly ModelMessage[]
  readonly tools: readonly { function: { name: string; description?: string; parameters?: unknown } }[]
}

export interface ModelMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool'
  readonly content?: string | readonly { type: string; text?: string }[] | null
  readonly tool_calls?: readonly { id: string; function: { name: string; arguments: string } }[]
  readonly tool_call_id?: string
}

export interface ModelToolCall {
  readonly name: string
  readonly arguments: unknown
  readonly id?: string
}

/**
 * The model's reply: text and tool calls, an HTTP error, raw bytes of a broken stream, or no response. After
 * `holdAfter` characters of tool calls the server sends nothing more and keeps the stream open.
 */
export type ModelReply =
  | {
      readonly text?: string
      readonly toolCalls?: readonly ModelToolCall[]
      readonly pauseMs?: number
      /** @default `tool_calls` for a reply with calls, otherwise `stop` */
      readonly finishReason?: string
      readonly holdAfter?: number
    }
  | { readonly status: number; readonly body?: unknown; readonly headers?: Record<string, string> }
  | { readonly raw: string }
  | { readonly refusal: string; readonly text?: string }
  | { readonly hang: true }

export interface ModelServer {
  /** Base URL for clients: `http://127.0.0.1:<port>/v1`. */
  readonly url: string
  readonly origin: string
  /** Every received request line, including unknown routes. */
  readonly paths: readonly string[]
  /** The header of each of these requests. */
  readonly authorizations: readonly (string | undefined)[]
  readonly requests: readonly ModelRequest[]
  close(): Promise<void>
}

/** Returns the JSON response of an additional GET route; undefined if the route does not exist. */
type Extra = (path: string) => unknown

type Respond = (request: ModelRequest, index: number) => ModelReply | Promise<ModelReply>

/** The text of a message, for both forms of its content. */
export function textOf(message: ModelMessage | undefined): string {
  if (typeof message?.content === 'string') return message.content
  return (message?.content ?? []).map((part) => part.text ?? '').join('')
}

export interface ModelServerOptions {
  readonly respond: Respond
  readonly extra?: Extra
  /**
   * The address of this machine to listen on.
   * @default loopback
   */
  readonly host?: string
}

/** An OpenAI-compatible model server whose model is the function `respond`. */
export async function startModelServer(options: ModelServerOptions): Promise<ModelServer> {
  const { host = '127.0.0.1' } = options
  const { requests, paths, authorizations, listener } = modelHandler(options)
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const { port } = server.address() as AddressInfo
  const origin = `http://${host}:${port}`
  return {
    url: `${origin}/v1`,
    origin,
    paths,
    authorizations,
    requests,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Serves the same requests for another server. */
export function modelHandler({ respond, extra = () => undefined }: Omit<ModelServerOptions, 'host'>) {
  const requests: ModelRequest[] = []
  const paths: string[] = []
  const authorizations: (string | undefined)[] = []
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    paths.push(`${request.method} ${request.url}`)
    authorizations.push(request.headers.authorization)
    serve({ request, response, requests, respond, extra }).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500)
      response.end(String(error))
    })
  }
  return { requests, paths, authorizations, listener }
}

type Exchange = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly requests: ModelRequest[]
  readonly respond: Respond
  readonly extra: Extra
}

async function serve({ request, response, requests, respond, extra }: Exchange): Promise<void> {
  const more = request.method === 'GET' ? extra(request.url ?? '') : undefined
  if (more !== undefined) return sendJson(response, 200, more)
  if (request.method === 'GET' && request.url?.endsWith('/models')) {
    return sendJson(response, 200, { object: 'list', data: [{ id: 'fake-model', object: 'model' }] })
  }
  if (request.method !== 'POST' || !request.url?.endsWith('/chat/completions')) {
    return sendJson(response, 404, { error: { message: `no such route: ${request.method} ${request.url}` } })
  }
  const modelRequest = await readRequest(request)
  requests.push(modelRequest)
  const reply = await respond(modelRequest, requests.length - 1)
  await answer(response, modelRequest, reply)
}

async function answer(response: ServerResponse, request: ModelRequest, reply: ModelReply): Promise<void> {
  if ('hang' in reply) return
  if ('status' in reply) {
    for (const [name, value] of Object.entries(reply.headers ?? {})) response.setHeader(name, value)
    return sendJson(response, reply.status, reply.body ?? { error: { message: `status ${reply.status}` } })
  }
  if ('raw' in reply) {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(reply.raw)
    return
  }
  if ('refusal' in reply) return refuse(response, request.model, reply)
  if (!request.stream) return sendJson(response, 200, completionOf(request.model, reply))
  await sendStream(response, request.model, reply)
}

async function readRequest(request: IncomingMessage): Promise<ModelRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Partial<ModelRequest>
  return {
    path: request.url ?? '',
    headers: request.headers,
    model: body.model ?? '',
    stream: body.stream ?? false,
    messages: body.messages ?? [],
    tools: body.tools ?? [],
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

type Words = Exclude<Extract<ModelReply, { text?: string }>, { refusal: string }>

const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }
let replies = 0

const wireCalls = (reply: Words) =>
  (reply.toolCalls ?? []).map((call, index) => ({
    index,
    id: call.id ?? `call_${replies}_${index}`,
    type: 'function',
    function: {
      name: call.name,
      arguments: typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments),
    },
  }))

const finishOf = (reply: Words) => reply.finishReason ?? (reply.toolCalls?.length ? 'tool_calls' : 'stop')

function completionOf(model: string, reply: Words) {
  replies += 1
  const calls = wireCalls(reply).map(({ index: _index, ...call }) => call)
  const message = {
    role: 'assistant',
    content: reply.text ?? null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
  return {
    id: `chatcmpl-${replies}`,
    object: 'chat.completion',
    created: 0,
    model,
    choices: [{ index: 0, message, finish_reason: finishOf(reply) }],
    usage: USAGE,
  }
}

/** Sends a refusal as OpenAI's API does: in a separate field next to the content, streamed in pieces. */
function refuse(response: ServerResponse, model: string, reply: { refusal: string; text?: string }): void {
  const half = Math.ceil(reply.refusal.length / 2)
  const deltas = [
    { role: 'assistant', content: reply.text ?? null, refusal: reply.refusal.slice(0, half) },
    { refusal: reply.refusal.slice(half) },
  ]
  const chunkOf = (delta: object, finish_reason: string | null) => ({
    id: 'chatcmpl-refusal',
    object: 'chat.completion.chunk',
    created: 0,
    model,
    choices: [{ index: 0, delta, finish_reason }],
  })
  const chunks = [...deltas.map((delta) => chunkOf(delta, null)), chunkOf({}, 'stop')]
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`)
}

/** Settles when the response accepts more data or its client has disconnected. */
async function drained(response: ServerResponse): Promise<void> {
  const settled = new AbortController()
  const { signal } = settled
  const events = ['drain', 'close'].map((event) => once(response, event, { signal }))
  await Promise.race(events)
  settled.abort()
  await Promise.allSettled(events)
}

/** Longer arguments are sent in more than two pieces. */
const MAX_PIECE = 65_536

/** A call as the pieces that its client puts together. */
function piecesOf(call: ReturnType<typeof wireCalls>[number]) {
  const { name, arguments: text } = call.function
  const size = Math.min(Math.ceil(text.length / 2), MAX_PIECE)
  const first = { ...call, function: { name, arguments: text.slice(0, size) } }
  const count = size === 0 ? 0 : Math.ceil(text.length / size)
  const more = Array.from({ length: Math.max(count - 1, 0) }, (_, piece) => ({
    index: call.index,
    function: { arguments: text.slice((piece + 1) * size, (piece + 2) * size) },
  }))
  return [first, ...more]
}

/** Streams the text in pieces of a few characters, then each call in two or more pieces, as real servers do. */
async function sendStream(response: ServerResponse, model: string, reply: Words): Promise<void> {
  replies += 1
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (choice: Record<string, unknown>, more: Record<string, unknown> = {}) => {
    const chunk = {
      id: `chatcmpl-${replies}`,
      object: 'chat.completion.chunk',
      created: 0,
      model,
      choices: [{ index: 0, finish_reason: null, ...choice }],
      ...more,
    }
    // A disconnected client reads no more data.
    const isTaken = response.write(`data: ${JSON.stringify(chunk)}\n\n`) || response.destroyed
    return { taken: async () => void (isTaken || (await drained(response))) }
  }
  send({ delta: { role: 'assistant', content: '' } })
  for (const piece of reply.text?.match(/[\s\S]{1,8}/gu) ?? []) {
    send({ delta: { content: piece } })
    if (reply.pauseMs !== undefined) await delay(reply.pauseMs)
  }
  let written = 0
  for (const delta of wireCalls(reply).flatMap(piecesOf)) {
    await send({ delta: { tool_calls: [delta] } }).taken()
    written += delta.function.arguments.length
    if (written > (reply.holdAfter ?? Number.POSITIVE_INFINITY)) return
    if (reply.pauseMs !== undefined) await delay(reply.pauseMs)
  }
  send({ delta: {}, finish_reason: finishOf(reply) }, { usage: USAGE })
  response.end('data: [DONE]\n\n')
}
