import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { EGRESS_REASON_HEADER, type EgressCaller } from '../../contracts/egress.ts'
import { parseAbsoluteForm, parseAuthority, type Target, withPort } from './authority.ts'
import type { Connections } from './connections.ts'
import type { Question, Refusal } from './decide.ts'
import { type Dialler, dial } from './dial.ts'
import { answer, asHeader, PRIVATE_REMEDY, STATUS_OF_RULE } from './refusals.ts'
import { forwardedHeaders, headerFault, headersNamed } from './request-headers.ts'

interface PlainHttpOptions extends Dialler {
  readonly caller: EgressCaller
  readonly connections: Connections
  /** Why there is no room for one more connection. */
  readonly overload: () => Refusal | undefined
}

/** A request without TLS, to a proxy or inside a tunnel. */
interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: Target
  readonly path: string
}

const BODILESS = new Set(['GET', 'HEAD'])
const NEVER_ALLOWED = new Set(['TRACE', 'TRACK', 'CONNECT'])
const FIX_REQUEST = 'Send a plain request with one Host header.'

const refusal = (rule: Refusal['rule'], reason: string, remedy = FIX_REQUEST): Refusal => ({
  rule,
  reason,
  remedy,
})

/** Serves requests without TLS. Each is checked, and gets a separate connection to a checked address. */
export class PlainHttp {
  readonly #options: PlainHttpOptions
  readonly #inner: Server
  readonly #targets = new WeakMap<Socket, Target>()

  constructor(options: PlainHttpOptions) {
    const { limits } = options
    this.#options = options
    this.#inner = createServer({
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headerMs,
      requestTimeout: 0,
      connectionsCheckingInterval: 1000,
    })
    this.#inner.timeout = limits.idleMs
    this.#inner.on('request', this.#onTunnelRequest)
    this.#inner.on('checkContinue', this.#onTunnelRequest)
    this.#inner.on('upgrade', this.onUpgrade)
    this.#inner.on('connect', (_request, socket: Socket) => socket.destroy())
    this.#inner.on('clientError', (_error: Error, socket: Socket) => socket.destroy())
  }

  /** Serves a tunnel whose client does not speak TLS. */
  serve(client: Socket, { target, bytes }: { target: Target; bytes: Buffer }): void {
    this.#targets.set(client, target)
    client.unshift(bytes)
    this.#inner.emit('connection', client)
    client.resume()
  }

  close(): void {
    this.#inner.close()
  }

  readonly onUpgrade = (request: IncomingMessage, socket: Duplex): void => {
    const parsed = parseAbsoluteForm(request.url ?? '')
    const target = this.#targets.get(request.socket) ?? (parsed.ok ? parsed.target : undefined)
    const refused = refusal('malformed-request', 'an upgrade without TLS is never forwarded', 'Use TLS.')
    const named = { host: target?.host.name ?? 'unknown', port: target?.port ?? 0, method: request.method }
    answer(socket, 403, this.#options.connections.refuse({ ...refused, ...named }))
  }

  /** A request with the absolute form of its target. */
  readonly onProxyRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const parsed = parseAbsoluteForm(request.url ?? '')
    if (parsed.ok) {
      this.#start({ request, response, target: parsed.target, path: parsed.path })
      return
    }
    const refused = refusal('malformed-request', parsed.reason, 'Use the proxy variables of the environment.')
    end(response, 400, this.#options.connections.refuse({ ...refused, host: 'unknown', port: 0 }))
  }

  readonly #onTunnelRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const target = this.#targets.get(request.socket)
    if (target && request.url?.startsWith('/')) this.#start({ request, response, target, path: request.url })
    else end(response, 400, 'The target of a request inside a tunnel must be a path.')
  }

  #start(asked: Asked): void {
    this.#handle(asked).catch(() => asked.response.destroy())
  }

  async #handle(asked: Asked): Promise<void> {
    const { caller, connections, overload } = this.#options
    const { request, response, target } = asked
    const question: Question = { ...target, caller, protocol: 'http', method: request.method }
    const fault = requestFault(request, target) ?? overload()
    if (fault) return this.#deny(asked, fault)
    const decision = connections.decide(question)
    if (!decision.ok) return this.#deny(asked, decision.refusal)
    const connection = connections.begin(question, request.socket)
    response.once('close', () => connections.end(connection))
    const dialled = await dial(this.#options, target, decision.destination)
    if (!dialled.ok) return this.#failed(asked, dialled)
    connection.upstream = dialled.socket
    dialled.socket.on('error', () => dialled.socket.destroy())
    if (!response.destroyed && connections.decide(question).ok) {
      forward(asked, dialled.socket, this.#options.limits.idleMs)
      return
    }
    connections.end(connection)
    dialled.socket.destroy()
    response.destroy()
  }

  #failed(asked: Asked, { rule, reason }: { rule?: Refusal['rule'] | undefined; reason: string }): void {
    if (rule === undefined)
      end(asked.response, 502, `Connection to ${asked.target.host.name} failed: ${reason}.`)
    else this.#deny(asked, refusal(rule, reason, PRIVATE_REMEDY))
  }

  #deny({ response, request, target }: Asked, refused: Refusal): void {
    const { host, port } = target
    const sentence = this.#options.connections.refuse({
      ...refused,
      host: host.name,
      port,
      method: request.method,
    })
    end(response, STATUS_OF_RULE[refused.rule] ?? 403, sentence)
  }
}

function requestFault(request: IncomingMessage, target: Target): Refusal | undefined {
  const { method = '', rawHeaders } = request
  const hosts = headersNamed(request, 'host')
  const [host = ''] = hosts
  const named = parseAuthority(withPort(host))
  const isSame = named.ok && named.target.host.name === target.host.name && named.target.port === target.port
  if (hosts.length !== 1 || !isSame)
    return refusal('name-mismatch', 'the Host header names another target than the request')
  if (NEVER_ALLOWED.has(method))
    return refusal('malformed-request', `the method ${method} is never forwarded`)
  const fault = headerFault(rawHeaders)
  if (fault !== undefined) return refusal('malformed-request', fault)
  const hasBody = headersNamed(request, 'transfer-encoding').length > 0 || bodyLength(request) !== '0'
  if (BODILESS.has(method) && hasBody)
    return refusal('malformed-request', `a ${method} request must have no body`)
  return undefined
}

const bodyLength = (request: IncomingMessage) => request.headers['content-length'] ?? '0'

/** Sends the request on. Node frames it again, so that both sides agree on its end. */
function forward({ request, response, path }: Asked, socket: Socket, idleMs: number): void {
  const sent = httpRequest({
    // Without an agent: an agent would look the host up and connect by itself.
    createConnection: () => socket,
    method: request.method,
    path,
    headers: [
      ...forwardedHeaders(request.rawHeaders, ['expect']),
      'Connection',
      'close',
      ...framing(request),
    ],
    setHost: false,
  })
  const fail = () => {
    if (response.headersSent) response.destroy()
    else end(response, 502, 'The destination ended the connection.')
  }
  sent.on('error', fail)
  sent.on('response', (answer) => {
    answer.on('error', fail)
    const headers = forwardedHeaders(answer.rawHeaders, [EGRESS_REASON_HEADER])
    try {
      // Without the reason phrase, which may contain characters that Node does not send.
      response.writeHead(answer.statusCode ?? 502, headers)
      answer.pipe(response)
    } catch {
      fail()
      sent.destroy()
    }
  })
  sent.on('upgrade', (_answer, upgraded) => {
    upgraded.destroy()
    fail()
  })
  socket.setTimeout(idleMs, () => socket.destroy())
  response.once('close', () => sent.destroy())
  // The headers were judged, so the client may send the body.
  if (request.headers.expect !== undefined) response.writeContinue()
  request.pipe(sent)
}

const framing = (request: IncomingMessage) =>
  headersNamed(request, 'transfer-encoding').length > 0 ? ['Transfer-Encoding', 'chunked'] : []

function end(response: ServerResponse, status: number, sentence: string): void {
  response.writeHead(status, {
    [EGRESS_REASON_HEADER]: asHeader(sentence),
    'content-type': 'text/plain; charset=utf-8',
    connection: 'close',
  })
  response.end(`${sentence}\n`)
}
