import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { parseAuthority } from '../../runtime/egress/authority.ts'
import { endWith, forward } from '../../runtime/egress/forward.ts'
import { EGRESS_LIMITS } from '../../runtime/egress/limits.ts'
import { createProxyServer } from '../../runtime/egress/proxy-server.ts'
import { readRequest } from '../../runtime/egress/request-rules.ts'
import { mutated, randomBelow } from './differential.ts'
import { type LlhttpMessage, readByLlhttp } from './llhttp.ts'

/** Starting points of the mutations: what a client sends on one connection. */
const HEAD = 'HTTP/1.1\r\nHost: a.example.com\r\n'
const SEEDS = [
  `POST /x ${HEAD}Content-Length: 5\r\n\r\nhello`,
  `POST /x ${HEAD}Content-Length: 3\r\n\r\nabcGET /second ${HEAD}\r\n`,
  `POST /x ${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
  `PUT /x ${HEAD}Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\nGET /second ${HEAD}\r\n`,
  `GET /x ${HEAD}\r\nGET /second ${HEAD}Connection: close\r\n\r\n`,
  `POST /x HTTP/1.0\r\nHost: a.example.com\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi`,
  `POST /x ${HEAD}Content-Length: 0\r\nExpect: 100-continue\r\n\r\nDELETE /second ${HEAD}\r\n`,
  `GET /x ${HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /second ${HEAD}\r\n`,
]

/** A request that the proxy accepts, its body, and what it sends to the server. */
interface Passed {
  readonly method: string
  readonly url: string
  body: string
  isComplete: boolean
  sent: Buffer
}

const target = parseAuthority('a.example.com:443')

/** A connection in memory. */
export class Wire extends Duplex {
  readonly onBytes: (bytes: Buffer) => void

  constructor(onBytes: (bytes: Buffer) => void) {
    super()
    this.onBytes = onBytes
    this.on('error', () => this.destroy())
  }

  override _read(): void {
    // `push` delivers the bytes.
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.onBytes(bytes)
    done()
  }

  // Methods of a socket that Node calls.
  readonly setTimeout = () => this
  readonly setNoDelay = () => this
  readonly setKeepAlive = () => this
}

export const asSocket = (wire: Wire) => wire as unknown as Socket

function accept(request: IncomingMessage, response: ServerResponse, passed: Passed[]): void {
  const { url = '', method = '' } = request
  if (!target.ok) throw new Error('the target is well-formed')
  const addressed = { target: target.target, path: url, protocol: 'https' } as const
  const one: Passed = { method, url, body: '', isComplete: false, sent: Buffer.alloc(0) }
  if (!readRequest(request, addressed).ok) {
    endWith(response, 400, 'refused')
    return
  }
  passed.push(one)
  const upstream = new Wire((bytes) => {
    one.sent = Buffer.concat([one.sent, bytes])
  })
  request.on('data', (chunk: Buffer) => {
    one.body += chunk.toString('latin1')
  })
  request.on('end', () => {
    one.isComplete = true
    // The body has to be written before the answer, which ends the connection.
    setImmediate(() => upstream.push('HTTP/1.1 204 No Content\r\n\r\n'))
  })
  const { headerBytes } = EGRESS_LIMITS
  forward({
    ...addressed,
    request,
    response,
    upstream: asSocket(upstream),
    headerBytes,
    refuse: () => 'refused',
    spend: () => undefined,
  })
}

/** Passes what a client sends through the parts of the proxy that read a request and write it again. */
async function pass(bytes: Buffer): Promise<Passed[]> {
  const passed: Passed[] = []
  const onRequest = (request: IncomingMessage, response: ServerResponse) => accept(request, response, passed)
  const server = createProxyServer(EGRESS_LIMITS)
  server.on('request', onRequest).on('checkContinue', onRequest)
  // Their handlers judge them with the same function and are not part of this comparison.
  server.on('upgrade', (_request, socket) => socket.destroy())
  server.on('connect', (_request, socket) => socket.destroy())
  // As in the proxy, earlier requests of the connection go on.
  server.on('clientError', () => undefined)
  let answered = 0
  const client = new Wire(({ length }) => {
    answered += length
  })
  server.emit('connection', asSocket(client))
  client.push(bytes)
  const progress = () => passed.reduce((sum, { sent, body }) => sum + sent.length + body.length + 1, answered)
  // All streams are in memory, so nothing is under way after some turns of the event loop without progress.
  for (let quiet = 0, before = -1; quiet < QUIET_TURNS && !client.destroyed; quiet += 1) {
    if (progress() !== before) quiet = 0
    before = progress()
    await new Promise((resolve) => setImmediate(resolve))
  }
  client.destroy()
  return passed
}

const QUIET_TURNS = 4

export const valuesOf = (message: LlhttpMessage | undefined, name: string) =>
  message?.headers.flatMap(([key, value]) => (key.toLowerCase() === name ? [value] : [])) ?? []

/** Why a strict server would not read exactly this one request. Undefined if it does. */
function faultOf({ method, url, body, isComplete, sent }: Passed): string | undefined {
  // An incomplete request may not have been written yet.
  if (sent.length === 0) return isComplete ? 'nothing was sent' : undefined
  const { messages, isRefused } = readByLlhttp(sent)
  const [message] = messages
  if (isRefused || messages.length !== 1) return `the server reads ${messages.length} requests`
  const line = `${message?.method} ${message?.url} ${valuesOf(message, 'host').join()}`
  if (line !== `${method} ${url} a.example.com`) return `the server reads ${line}`
  if (message?.isComplete !== isComplete) return 'the server sees another end'
  return isComplete && message.body !== body ? 'the server reads another body' : undefined
}

/** Each accepted request must be one that the parser of undici reads in the bytes of the client, in this order, or refuses. */
function differenceOf(passed: readonly Passed[], bytes: Buffer): string | undefined {
  const { messages, isRefused } = readByLlhttp(bytes)
  let left = messages
  for (const { method, url, body, isComplete } of passed) {
    const alike = left.filter((message) => message.method === method && message.url === url)
    const same = alike.find((message) => message.isComplete === isComplete && message.body === body)
    if (same) left = left.slice(left.indexOf(same) + 1)
    else if (!isRefused || alike.some((message) => message.isComplete)) return 'undici reads no such request'
  }
  return undefined
}

/**
 * Passes mutated connections through the proxy, and returns the number of accepted requests. Throws if the server or the parser
 * of undici reads one in another way.
 */
export async function passMessages(seed: number, count: number): Promise<number> {
  const below = randomBelow(seed)
  let accepted = 0
  for (let index = 0; index < count; index += 1) {
    const bytes = Buffer.from(mutated(below, SEEDS), 'latin1')
    const passed = await pass(bytes)
    accepted += passed.length
    const fault = passed.map(faultOf).find((one) => one !== undefined) ?? differenceOf(passed, bytes)
    if (fault !== undefined) throw new Error(`${fault}: ${JSON.stringify(bytes.toString('latin1'))}`)
  }
  return accepted
}
