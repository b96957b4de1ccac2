import type { Socket } from 'node:net'
import { buildConnector, Client, Dispatcher } from 'undici'
import { deadline } from '../kit/deadline.ts'
import { errnoOf, messageOf, SandboxError } from '../kit/errors.ts'
import type { ConnectionGuard, NewConnection } from './connection-guard.ts'

/** Maximum size of a response to the guard: a projected token has about 1.5 KiB. */
const MAX_ANSWER_BYTES = 16_384
const CONNECT_TIMEOUT_MS = 10_000
export const ANSWER_TIMEOUT_MS = 5_000

/** An undici client that is bound to one socket. Requests of a run use it only after the guard has accepted its server. */
interface VerifiedConnection {
  readonly client: Client
  readonly socket: Socket
}

/** Connections that the guard checks ahead of the requests that will use them. */
export interface PreparedConnections {
  /** The next connection, which may still be opening or may have failed; undefined if all are taken. */
  take(): Promise<VerifiedConnection> | undefined
  /** Resolves when every connection is open or has failed. */
  readonly settled: Promise<void>
  /** Closes every connection, also those that requests have taken. */
  close(): void
}

const dial = buildConnector({ timeout: CONNECT_TIMEOUT_MS })

/** Opens a TCP connection and lets the guard check the server. The signal closes the connection, then and later. */
async function open(
  baseUrl: string,
  guard: ConnectionGuard,
  signal: AbortSignal,
): Promise<VerifiedConnection> {
  signal.throwIfAborted()
  const socket = await new Promise<Socket>((resolve, reject) =>
    dial(targetOf(baseUrl), (error, opened) =>
      opened ? resolve(opened) : reject(error ?? new Error('the connection could not be opened')),
    ),
  )
  const end = () => socket.destroy()
  signal.addEventListener('abort', end)
  socket.once('close', () => signal.removeEventListener('abort', end))
  try {
    signal.throwIfAborted()
    const client = clientOn(socket, baseUrl)
    await guard.verify(toNewConnection({ client, socket }))
    return { client, socket }
  } catch (refusal) {
    socket.destroy()
    signal.throwIfAborted()
    throw refusal
  }
}

/**
 * A client on one socket. Its connect hook returns the socket once and fails afterwards: undici connects again on its
 * own when a socket closes, and the server at the address may then be another pod.
 */
export function clientOn(socket: Socket, baseUrl: string): Client {
  let isTaken = false
  return new Client(baseUrl, {
    bodyTimeout: 0,
    headersTimeout: 0,
    pipelining: 1,
    connect: (_options, callback) => {
      // undici sends nothing if the hook calls back before it returns.
      queueMicrotask(() => {
        if (isTaken) return callback(ended(), null)
        isTaken = true
        callback(null, socket)
      })
    },
  })
}

/** undici retries a request whose connect hook fails with its own `UND_ERR_SOCKET`, so this is a system error. */
const ended = (): Error =>
  Object.assign(new Error('the verified connection has ended'), { code: 'ECONNRESET', syscall: 'read' })

/**
 * True if a request can be sent on the connection at once. Data that arrived before any request was sent would be read
 * as the response to the first one.
 */
const isFree = ({ client, socket }: VerifiedConnection): boolean =>
  client.stats.size === 0 && !socket.destroyed && !socket.readableEnded && socket.readableLength === 0

/**
 * Opens connections ahead of their requests. Only the guard's requests are sent on them. They are opened one after the
 * other, because the first is needed first, and the server would otherwise share its time among all of them.
 */
export function prepareConnections(
  baseUrl: string,
  guard: ConnectionGuard,
  count: number,
): PreparedConnections {
  let before: Promise<unknown> = Promise.resolve()
  const closing = new AbortController()
  const prepared = Array.from({ length: count }, () => {
    const opening = before.then(() => open(baseUrl, guard, closing.signal))
    before = opening.catch(ignore)
    return opening
  })
  return {
    settled: before.then(ignore),
    take: () => prepared.shift(),
    close: () => closing.abort(closed()),
  }
}

export interface VerifiedConnectionsOptions {
  readonly baseUrl: string
  readonly guard: ConnectionGuard
  /** Connections to the same address, which the first requests use. */
  readonly prepared: PreparedConnections | undefined
}

/**
 * Sends each request on a connection that the guard has accepted: on a free one, then on a prepared one, then on a new
 * one. If the guard rejects the connection, the request fails with the guard's error and is not sent.
 */
export class VerifiedConnections extends Dispatcher {
  readonly #options: VerifiedConnectionsOptions
  readonly #connections = new Set<VerifiedConnection>()
  readonly #closing = new AbortController()

  constructor(options: VerifiedConnectionsOptions) {
    super()
    this.#options = options
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const free = [...this.#connections].find(isFree)
    if (free) return free.client.dispatch(options, handler)
    this.#takeOrOpen().then(
      ({ client }) => client.dispatch(options, handler),
      (error) => this.#fail(error, { options, handler }),
    )
    return true
  }

  /** Closes all connections. Requests that have no response yet fail. */
  async end(): Promise<void> {
    this.#closing.abort(closed())
    this.#options.prepared?.close()
    await Promise.all([...this.#connections].map(({ client }) => client.destroy()))
  }

  /** A prepared connection that closed, or that received unsolicited data, is replaced by a new one. */
  async #takeOrOpen(): Promise<VerifiedConnection> {
    const { baseUrl, guard, prepared } = this.#options
    const ahead = await prepared?.take()
    const connection = ahead && isFree(ahead) ? ahead : await open(baseUrl, guard, this.#closing.signal)
    if (ahead !== connection) ahead?.socket.destroy()
    if (this.#closing.signal.aborted) connection.socket.destroy()
    this.#closing.signal.throwIfAborted()
    this.#connections.add(connection)
    connection.socket.once('close', () => this.#connections.delete(connection))
    return connection
  }

  /** Fails a request without sending it: a client that cannot connect reports the error to the request's handler. */
  #fail(
    error: Error,
    request: { options: Dispatcher.DispatchOptions; handler: Dispatcher.DispatchHandler },
  ): void {
    const client = new Client(this.#options.baseUrl, { connect: ignore })
    client.dispatch(request.options, request.handler)
    void client.destroy(error)
  }
}

const closed = (): SandboxError =>
  new SandboxError('sandbox_lost', 'the connections to the AgentHost were closed')

const ignore = (): void => undefined

/** The form in which undici passes an address to a connector. */
function targetOf(baseUrl: string): buildConnector.Options {
  const { host, hostname, protocol, port } = new URL(baseUrl)
  return { host, hostname: hostname.replace(/^\[(.*)\]$/, '$1'), protocol, port }
}

const toNewConnection = (connection: VerifiedConnection): NewConnection => ({
  remoteAddress: connection.socket.remoteAddress ?? '',
  remotePort: connection.socket.remotePort ?? 0,
  get: (path) => deadline(`GET ${path} on a new connection`, ANSWER_TIMEOUT_MS, get(connection, path)),
})

async function get(
  { client, socket }: VerifiedConnection,
  path: string,
): Promise<{ status: number; body: string }> {
  try {
    const { statusCode, headers, body } = await client.request({
      path,
      method: 'GET',
      headers: { host: 'agent-host' },
    })
    if (headers['content-length'] === undefined) throw new Error('the response has no length')
    const text = await boundedText(body)
    // undici closes the connection if data follows the response, or if the response announces the end of the connection.
    if (socket.destroyed) throw new Error('the connection ended with its first response')
    return { status: statusCode, body: text }
  } catch (error) {
    throw BROKEN.has(errnoOf(error) ?? '') ? broken(error) : notAnAgentHost(error)
  }
}

/** Errors of the connection itself. They say nothing about the server. */
const BROKEN: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'UND_ERR_SOCKET'])

const broken = (cause: unknown): SandboxError =>
  new SandboxError('sandbox_lost', "the connection broke before the sandbox's identity was verified", {
    cause,
  })

const notAnAgentHost = (cause: unknown): SandboxError =>
  new SandboxError(
    'identity_mismatch',
    `the server at the pod's address is not an AgentHost: ${messageOf(cause)}`,
    { cause },
  )

async function boundedText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.byteLength
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the response is too long')
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString()
}
