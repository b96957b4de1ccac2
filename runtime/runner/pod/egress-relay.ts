import { connect, createServer, type Server, type Socket } from 'node:net'
import {
  EGRESS_REASON_HEADER,
  EGRESS_RELAY_PORT,
  EGRESS_RETRY_AFTER_SECONDS,
} from '../../../contracts/egress.ts'
import type { EgressAccess } from '../../../contracts/egress-control.ts'
import { errnoOf, messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'

export interface EgressRelayOptions {
  /** `HOST:PORT` of the egress proxy. */
  readonly address: string
  readonly log: Log
  /** @default the port that commands know */
  readonly port?: number
}

const MAX_HEAD_BYTES = 16_384
const HEAD_MS = 10_000
/** The token arrives shortly after the sandbox was configured. */
const TOKEN_MS = 10_000
const MAX_CONNECTIONS = 512
/** A replica of the proxy that leaves refuses connections for a moment. The next attempt may get another one. */
const CONNECT_AGAIN_MS = [100, 400, 1000]
const CONNECT_MS = 5_000

const NO_TOKEN =
  'This sandbox has no network access. Start a run with network access, or run the command without it.'
const NO_PROXY =
  'The egress proxy does not answer, so there is no network. Try again later; if it happens again, report it to the operator of Agentweaver.'

const HEAD_END = Buffer.from('\r\n\r\n')
const CREDENTIALS = /^proxy-authorization[ \t]*:/i
const REFUSED = /^HTTP\/1\.1 [45]/
const REASON = new RegExp(`\\r\\n${EGRESS_REASON_HEADER}: ([\\x20-\\x7e]{1,2500})\\r\\n`, 'i')

type RefusalListener = (sentence: string) => void

/**
 * The relay of a pod: accepts connections of commands on the loopback interface and passes them to the egress proxy. It
 * adds the token that identifies the sandbox, so no command has one, and a process that outlives a token keeps its network.
 * It decides nothing.
 */
export class EgressRelay {
  readonly #options: EgressRelayOptions
  readonly #server: Server
  readonly #listeners = new Set<RefusalListener>()
  readonly #first = Promise.withResolvers<void>()
  #token: string | undefined

  constructor(options: EgressRelayOptions) {
    this.#options = options
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#onClient(client))
    this.#server.maxConnections = MAX_CONNECTIONS
    this.#server.on('error', (error) => options.log.error('the relay failed', { error: messageOf(error) }))
  }

  /** Listens before any command runs, so that no command can take its place. */
  async listen(): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#server.once('error', reject)
    this.#server.listen({ port: this.#options.port ?? EGRESS_RELAY_PORT, host: '127.0.0.1' }, resolve)
    await promise
    const address = this.#server.address()
    return typeof address === 'object' && address ? address.port : 0
  }

  close(): void {
    this.#server.close()
  }

  use({ commandsToken }: EgressAccess): void {
    this.#token = commandsToken
    this.#first.resolve()
  }

  /** Calls back with the sentence of each refusal. The return value unsubscribes. */
  onRefusal(listener: RefusalListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #onClient(client: Socket): void {
    client.on('error', () => client.destroy())
    this.#relay(client).catch((error: unknown) => {
      this.#options.log.error('a connection could not be relayed', { error: messageOf(error) })
      client.destroy()
    })
  }

  async #relay(client: Socket): Promise<void> {
    const request = await firstRequest(client)
    if (!request) {
      client.destroy()
      return
    }
    const token = await this.#tokenInTime()
    if (token === undefined) return this.#refuse(client, NO_TOKEN)
    const upstream = await this.#dial(client)
    if (!upstream) return this.#refuse(client, NO_PROXY)
    upstream.on('error', () => client.destroy())
    client.once('close', () => upstream.destroy())
    upstream.once('close', () => !client.writableEnded && client.destroySoon())
    this.#watchAnswer(upstream)
    upstream.write(withToken(request, token))
    client.pipe(upstream)
    upstream.pipe(client)
  }

  async #tokenInTime(): Promise<string | undefined> {
    if (this.#token !== undefined) return this.#token
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, TOKEN_MS)
    await Promise.race([this.#first.promise, promise])
    clearTimeout(timer)
    return this.#token
  }

  /** Undefined if no replica of the proxy accepts a connection, or the client has left. */
  async #dial(client: Socket): Promise<Socket | undefined> {
    for (const pauseMs of [0, ...CONNECT_AGAIN_MS]) {
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
      if (client.destroyed) return undefined
      const opened = await dialOnce(this.#options.address)
      if (typeof opened !== 'string') return opened
      this.#options.log.debug('the egress proxy could not be reached', { error: opened })
    }
    return undefined
  }

  /** Looks at the head of the first answer, without changing it. */
  #watchAnswer(upstream: Socket): void {
    let start = ''
    const look = (chunk: Buffer) => {
      start += chunk.toString('latin1')
      const end = start.indexOf('\r\n\r\n')
      if (end < 0 && start.length <= MAX_HEAD_BYTES && (start.length < 12 || REFUSED.test(start))) return
      upstream.off('data', look)
      // The body is the server's, and may look like a header of the proxy.
      const head = `${end < 0 ? '' : start.slice(0, end)}\r\n`
      const sentence = REFUSED.test(head) ? REASON.exec(head)?.[1] : undefined
      if (sentence !== undefined) this.#tell(sentence)
    }
    upstream.on('data', look)
  }

  #tell(sentence: string): void {
    for (const listener of [...this.#listeners]) listener(sentence)
  }

  #refuse(client: Socket, sentence: string): void {
    this.#tell(sentence)
    const body = `${sentence}\n`
    client.end(
      `HTTP/1.1 503 Service Unavailable\r\nretry-after: ${EGRESS_RETRY_AFTER_SECONDS}\r\nconnection: close\r\n${EGRESS_REASON_HEADER}: ${sentence}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
  }
}

interface FirstRequest {
  readonly head: string
  readonly rest: Buffer
}

/** The head of the first request of a client, and the bytes after it. Undefined if it does not come in time. */
function firstRequest(client: Socket): Promise<FirstRequest | undefined> {
  const { promise, resolve } = Promise.withResolvers<FirstRequest | undefined>()
  let bytes = Buffer.alloc(0)
  const give = (request?: FirstRequest) => {
    clearTimeout(timer)
    client.off('data', onData)
    client.pause()
    resolve(request)
  }
  const onData = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    const end = bytes.indexOf(HEAD_END)
    if (end >= 0) give({ head: bytes.toString('latin1', 0, end), rest: bytes.subarray(end) })
    else if (bytes.length > MAX_HEAD_BYTES) give()
  }
  const timer = setTimeout(() => give(), HEAD_MS)
  client.on('data', onData)
  for (const event of ['end', 'close'] as const) client.once(event, () => give())
  return promise
}

function withToken({ head, rest }: FirstRequest, token: string): Buffer {
  const [line = '', ...headers] = head.split('\r\n')
  const kept = headers.filter((header) => !CREDENTIALS.test(header))
  const lines = [line, `Proxy-Authorization: Bearer ${token}`, ...kept]
  return Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), rest])
}

/** Returns the connection, or the error code of the failure. */
function dialOnce(address: string): Promise<Socket | string> {
  const { promise, resolve } = Promise.withResolvers<Socket | string>()
  const at = address.lastIndexOf(':')
  const host = address.slice(0, at).replace(/^\[|\]$/g, '')
  const upstream = connect({ host, port: Number(address.slice(at + 1)), allowHalfOpen: true, noDelay: true })
  const fail = (code: string) => {
    clearTimeout(timer)
    upstream.destroy()
    resolve(code)
  }
  const timer = setTimeout(() => fail('ETIMEDOUT'), CONNECT_MS)
  const onError = (error: Error) => fail(errnoOf(error) ?? error.message)
  upstream.once('error', onError)
  upstream.once('connect', () => {
    clearTimeout(timer)
    upstream.off('error', onError)
    resolve(upstream)
  })
  return promise
}
