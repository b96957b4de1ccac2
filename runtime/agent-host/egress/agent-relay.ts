import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { EGRESS_REASON_HEADER } from '../../../contracts/egress.ts'
import {
  type Attempt,
  type BusyAnswer,
  notConnected,
  type OnModelWait,
  Patience,
} from '../../agents/model-waits.ts'
import type { ProxyAddress } from '../../azure/workload-identity.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'

export interface AgentRelayOptions {
  /** The egress proxy. */
  readonly proxy: URL
  /** The token of this AgentHost. Waits for the first one. */
  readonly fetchToken: () => Promise<string>
  /** Called when a tunnel has to wait for the proxy. */
  readonly onWait: OnModelWait
  readonly log: Log
}

const USER = 'agent'
const CONNECT_MS = 10_000
const MAX_CONNECTIONS = 64
/** The answer of the proxy to CONNECT. */
const MAX_HEAD = 16_384
const ANSWER_MS = 60_000
/** `HOST:PORT`, as programs write it in CONNECT. */
const TARGET = /^[A-Za-z0-9._-]{1,255}:\d{1,5}$/

/**
 * The way of the agent to its servers through an egress proxy that wants a token. The agent runtime gets the address of a
 * proxy when it starts, and tokens are replaced while it runs, so it gets the address of this relay, which adds the newest
 * token. Commands of a pod share the loopback interface, so the relay has a password of its own.
 */
export class AgentRelay {
  readonly #options: AgentRelayOptions
  readonly #server: Server
  readonly #patience: Patience
  readonly #password = randomBytes(24).toString('base64url')
  readonly #sockets = new Set<Socket>()
  #port = 0

  constructor(options: AgentRelayOptions) {
    this.#options = options
    this.#patience = new Patience({ onWait: options.onWait })
    this.#server = createServer((_request, response) => response.writeHead(405).end())
    this.#server.maxConnections = MAX_CONNECTIONS
    this.#server.on('connect', (request, client: Socket, head) => this.#onConnect(request, client, head))
    this.#server.on('error', (error) =>
      options.log.error('the relay of the agent failed', { error: messageOf(error) }),
    )
  }

  async listen(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#server.once('error', reject)
    this.#server.listen({ port: 0, host: '127.0.0.1' }, resolve)
    await promise
    this.#port = (this.#server.address() as AddressInfo).port
  }

  /** For programs that take the address of a proxy from a variable. */
  get url(): string {
    return `http://${USER}:${this.#password}@127.0.0.1:${this.#port}`
  }

  get address(): ProxyAddress {
    return { host: 'http://127.0.0.1', port: this.#port, username: USER, password: this.#password }
  }

  /** The redactor must know it: it is in the environment of the agent runtime. */
  get password(): string {
    return this.#password
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #onConnect(request: IncomingMessage, client: Socket, head: Buffer): void {
    this.#hold(client)
    if (!this.#isKnown(request.headers['proxy-authorization'])) {
      client.end(
        'HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm="agentweaver"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n',
      )
      return
    }
    const target = request.url ?? ''
    if (!TARGET.test(target)) {
      client.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
      return
    }
    this.#relay(client, target, head).catch((error: unknown) => {
      this.#options.log.warn('a connection of the agent could not be relayed', { error: messageOf(error) })
      client.end('HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
    })
  }

  #isKnown(header = ''): boolean {
    const wanted = Buffer.from(`Basic ${Buffer.from(`${USER}:${this.#password}`).toString('base64')}`)
    const given = Buffer.from(header)
    return given.length === wanted.length && timingSafeEqual(given, wanted)
  }

  /** Passes the response of the proxy on unchanged, also a refusal. Repeats CONNECT while the proxy asks to wait or cannot be reached. */
  async #relay(client: Socket, target: string, head: Buffer): Promise<void> {
    const left = new AbortController()
    const leave = () => left.abort(new Error('the agent no longer waits'))
    // Only a socket that is read notices that the other side has left.
    const early = [head]
    const onData = (chunk: Buffer) => early.push(chunk)
    client.on('data', onData).once('end', leave).once('close', leave)
    let last: Socket | undefined
    client.once('close', () => last?.destroy())
    const connectOnce = async (): Promise<Attempt<{ upstream: Socket; first: Buffer }>> => {
      last?.destroy()
      const token = await this.#options.fetchToken()
      let upstream: Socket
      try {
        upstream = await dial(this.#options.proxy)
      } catch (error) {
        return notConnected(error)
      }
      last = upstream
      this.#hold(upstream)
      if (client.destroyed) upstream.destroy()
      upstream.write(
        `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Bearer ${token}\r\n\r\n`,
      )
      const first = await firstAnswer(upstream)
      return { busy: busyAnswer(first.toString('latin1')), take: () => ({ upstream, first }) }
    }
    const { upstream, first } = await this.#patience.until(connectOnce, left.signal)
    client.pause().off('data', onData).off('end', leave)
    upstream.once('close', () => client.destroySoon())
    client.write(first)
    upstream.write(Buffer.concat(early))
    client.pipe(upstream).pipe(client)
  }

  #hold(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
  }
}

const DEFAULT_PORT = 80

/** The answer of the proxy, up to the end of its header at least. */
async function firstAnswer(upstream: Socket): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  let bytes = Buffer.alloc(0)
  const onData = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    if (bytes.includes('\r\n\r\n') || bytes.length > MAX_HEAD) resolve(bytes)
  }
  const onClose = () => reject(new Error('the egress proxy closed the connection'))
  upstream.on('data', onData).once('close', onClose)
  try {
    return await deadline('the answer of the egress proxy', ANSWER_MS, promise)
  } finally {
    upstream.pause()
    upstream.off('data', onData).off('close', onClose)
  }
}

/** The proxy answers every CONNECT itself, so no other server can write these headers. It refuses a frozen run with 403. */
function busyAnswer(answer: string): BusyAnswer {
  const [head = ''] = answer.split('\r\n\r\n', 1)
  const header = (name: string) => new RegExp(`\\r\\n${name}: *([^\\r]*)`, 'i').exec(head)?.[1] ?? null
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0),
    retryAfter: header('retry-after'),
    rule: null,
    sentence: header(EGRESS_REASON_HEADER),
  }
}

async function dial({ hostname, port }: URL): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const socket = connect({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? DEFAULT_PORT : Number(port),
    noDelay: true,
    timeout: CONNECT_MS,
  })
  socket.once('connect', resolve)
  socket.once('error', reject)
  socket.once('timeout', () => reject(new Error('the egress proxy does not answer')))
  try {
    await promise
    socket.setTimeout(0)
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  }
}
