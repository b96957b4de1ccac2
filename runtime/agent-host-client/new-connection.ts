import type { Socket } from 'node:net'
import { buildConnector } from 'undici'
import { deadline } from '../kit/deadline.ts'
import { SandboxError } from '../kit/errors.ts'
import type { ConnectionGuard, NewConnection } from './connection-guard.ts'

/** What a guard may be told at most: a projected token has about 1.5 KiB. */
const MAX_ANSWER_BYTES = 16_384
const CONNECT_TIMEOUT_MS = 10_000
export const ANSWER_TIMEOUT_MS = 5_000

/** Connections that the guard has been asked about ahead of the requests that will want them. */
export interface PreparedConnections {
  /** The next one, which may be open by now or not, or may have failed; undefined where all are taken. */
  take(): Promise<Socket> | undefined
  /** Resolves when each of them is open or has failed. */
  readonly settled: Promise<void>
  /** Ends those that nothing has taken. */
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
 * Opens connections, and says nothing on them but the guard's question. One after the other: the first is wanted first,
 * and whoever answers there need not do the work for all of them before.
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
 * Takes connections that were prepared, then opens more, each of which the guard has accepted before it is handed on. A
 * prepared one that was refused fails the request that takes it.
 */
export function guardedConnector(
  guard: ConnectionGuard,
  prepared?: PreparedConnections,
): buildConnector.connector {
  /** One that broke while it waited, or on which somebody spoke unasked, is as good as none. */
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
 * One request and its whole answer on a bare socket, which is then as it was. The parser takes the one form that
 * AgentHost answers in: whoever answers otherwise is somebody else.
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

/** The answer once it is complete. Throws on bytes behind it, on chunks, and on a length that is not said once. */
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

/** Reads without making the socket flow: whoever takes it over reads from where this ended. */
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
