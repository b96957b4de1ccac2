import type { Socket } from 'node:net'
import { buildConnector } from 'undici'
import { deadline } from '../kit/deadline.ts'
import { SandboxError } from '../kit/errors.ts'
import type { ConnectionGuard, NewConnection } from './connection-guard.ts'

/** Maximum size of a response to the guard: a projected token has about 1.5 KiB. */
const MAX_ANSWER_BYTES = 16_384
const CONNECT_TIMEOUT_MS = 10_000
export const ANSWER_TIMEOUT_MS = 5_000

/** Connections that the guard checks ahead of the requests that will use them. */
export interface PreparedConnections {
  /** The next connection, which may still be opening or may have failed; undefined if all are taken. */
  take(): Promise<Socket> | undefined
  /** Resolves when every connection is open or has failed. */
  readonly settled: Promise<void>
  /** Closes the connections that no request has taken. */
  close(): void
}

const dial = buildConnector({ timeout: CONNECT_TIMEOUT_MS })

/** A TCP connection that the guard has accepted. The signal ends it, then and later. */
async function open(
  options: buildConnector.Options,
  guard: ConnectionGuard,
  signal?: AbortSignal,
): Promise<Socket> {
  signal?.throwIfAborted()
  const socket = await new Promise<Socket>((resolve, reject) =>
    dial(options, (error, opened) =>
      opened ? resolve(opened) : reject(error ?? unanswered('the connection could not be opened')),
    ),
  )
  signal?.addEventListener('abort', () => socket.destroy(), { once: true })
  if (signal?.aborted) socket.destroy()
  try {
    await guard.verify(asNewConnection(socket))
    return socket
  } catch (refusal) {
    socket.destroy()
    throw refusal
  }
}

/**
 * Opens connections ahead of their requests. Only the guard's request is sent on them. They are opened one after the
 * other because the first is needed first, and the server then need not do the work of all the others before it.
 */
export function prepareConnections(
  baseUrl: string,
  guard: ConnectionGuard,
  count: number,
): PreparedConnections {
  const options = optionsFor(baseUrl)
  let before: Promise<unknown> = Promise.resolve()
  const prepared = Array.from({ length: count }, () => {
    const untaken = new AbortController()
    const opening = before.then(async () => {
      const socket = await open(options, guard, untaken.signal)
      return socket.on('error', ignore)
    })
    before = opening.catch(ignore)
    return { opening, untaken }
  })
  return {
    settled: before.then(ignore),
    take: () => prepared.shift()?.opening,
    close: () => {
      for (const { untaken } of prepared.splice(0)) untaken.abort()
    },
  }
}

/**
 * Takes prepared connections first, then opens new ones. The guard has accepted each connection before a request uses
 * it. If the guard rejected a prepared connection, the request that takes it fails.
 */
export function guardedConnector(
  guard: ConnectionGuard,
  prepared?: PreparedConnections,
): buildConnector.connector {
  /** A prepared connection that closed, or that received unsolicited data, is replaced by a new one. */
  async function takeOrOpen(options: buildConnector.Options): Promise<Socket> {
    const socket = await prepared?.take()
    if (!socket) return open(options, guard)
    socket.off('error', ignore)
    if (!socket.destroyed && !socket.readableEnded && socket.readableLength === 0) return socket
    socket.destroy()
    return open(options, guard)
  }

  return (options, callback) => {
    takeOrOpen(options).then(
      (socket) => callback(null, socket),
      (error: Error) => callback(error, null),
    )
  }
}

const ignore = (): void => undefined

/** As undici gives them to a connector. */
function optionsFor(baseUrl: string): buildConnector.Options {
  const { host, hostname, protocol, port } = new URL(baseUrl)
  return { host, hostname: hostname.replace(/^\[(.*)\]$/, '$1'), protocol, port }
}

function asNewConnection(socket: Socket): NewConnection {
  return {
    remoteAddress: socket.remoteAddress ?? '',
    remotePort: socket.remotePort ?? 0,
    get: (path) => deadline(`GET ${path} on a new connection`, ANSWER_TIMEOUT_MS, exchange(socket, path)),
  }
}

/**
 * Sends one request on a bare socket and reads the complete response; the socket is then unused again. The parser
 * accepts only the exact format of AgentHost, so any other server is rejected.
 */
async function exchange(socket: Socket, path: string): Promise<{ status: number; body: string }> {
  socket.write(`GET ${path} HTTP/1.1\r\nhost: agent-host\r\n\r\n`)
  let bytes = Buffer.alloc(0)
  for (;;) {
    const answer = parseAnswer(bytes)
    if (answer) return answer
    bytes = Buffer.concat([bytes, await nextBytes(socket)])
    if (bytes.length > MAX_ANSWER_BYTES) throw unanswered('the answer is too long')
  }
}

const HEAD = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[!#$%&'*+.^_`|~\w-]+:[^\r\n]*\r\n)*)\r\n/

/**
 * Returns the response once it is complete. Throws on bytes after it, on chunked encoding, and unless there is exactly
 * one length.
 */
function parseAnswer(bytes: Buffer): { status: number; body: string } | undefined {
  const text = bytes.toString('latin1')
  if (!text.includes('\r\n\r\n')) return undefined
  const head = HEAD.exec(text)
  if (!head) throw unanswered('the answer is not HTTP/1.1')
  const [{ length: at }, status = '', headers = ''] = head
  const lengths = [...headers.matchAll(/^content-length:[ \t]*(\d{1,5})[ \t]*\r$/gim)]
  const [only, second] = lengths
  if (!only || second || /^(?:transfer-encoding|connection:[ \t]*close)/im.test(headers))
    throw unanswered('the length of the answer is not said exactly once, or its connection ends')
  const length = Number(only[1])
  if (bytes.length - at > length) throw unanswered('there are bytes behind the answer')
  if (bytes.length - at < length) return undefined
  return { status: Number(status), body: bytes.toString('utf8', at) }
}

/**
 * Reads without switching the socket to flowing mode, so the next owner reads from the position where this read ended.
 */
async function nextBytes(socket: Socket): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onEnd = () => reject(unanswered('the connection ended before its answer'))
  const ends = ['end', 'close', 'error'] as const
  socket.once('readable', resolve)
  for (const event of ends) socket.once(event, onEnd)
  try {
    const waiting: Buffer | null = socket.read()
    if (waiting) return waiting
    if (socket.destroyed || socket.readableEnded) onEnd()
    await promise
    return socket.read() ?? Buffer.alloc(0)
  } finally {
    socket.removeListener('readable', resolve)
    for (const event of ends) socket.removeListener(event, onEnd)
  }
}

const unanswered = (why: string): SandboxError =>
  new SandboxError('identity_mismatch', `what answers on the pod's address is no AgentHost: ${why}`)
