import { Agent, type Dispatcher, request as send } from 'undici'
import { delay, withTimeout } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import { type BackOff, createBackOff } from './back-off.ts'
import type { KubeConnection } from './kube-connection.ts'
import { isStatus, isTransient, KubeError, parseRetryAfter } from './kube-error.ts'
import { readLines, readText } from './response-body.ts'

export interface TransportOptions {
  /** An attempt that was not answered by then is made again. */
  readonly attemptTimeoutMs: number
  readonly backOff: { readonly baseMs: number; readonly maxMs: number }
}

export const TRANSPORT_DEFAULTS: TransportOptions = {
  attemptTimeoutMs: 5_000,
  backOff: { baseMs: 100, maxMs: 5_000 },
}

export type Question = {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly body?: unknown
  readonly contentType?: string
  /** @default application/json */
  readonly accept?: string
}

export type StreamOptions = {
  /** Authenticate anew: the last attempt was refused. */
  readonly fresh: boolean
  readonly signal: AbortSignal
  /** Called at every sign of life. */
  readonly onBytes: () => void
}

/** The server may ask for any wait; more than this would outlast every deadline of ours. */
const MAX_RETRY_AFTER_MS = 30_000
const MAX_CONNECTIONS = 64
const KEEP_ALIVE_MS = 15_000
/** The API server closes a connection that was idle for 90 s; undici does after 4, and each new one is a TLS handshake. */
const IDLE_MS = 60_000

/** HTTP to one API server: requests that are tried again, and streams that are not. */
export function createTransport(connection: KubeConnection, options: TransportOptions = TRANSPORT_DEFAULTS) {
  const { attemptTimeoutMs, backOff } = options
  const dispatcher = new Agent({
    connect: { ...connection.tls },
    connections: MAX_CONNECTIONS,
    keepAliveTimeout: IDLE_MS,
  })
  // Streams have connections of their own: they must never make a request wait for a place.
  const streaming = new Agent({
    connect: { ...connection.tls, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS },
    headersTimeout: attemptTimeoutMs,
    bodyTimeout: 0,
  })

  async function attempt(question: Question, signal: AbortSignal, fresh: boolean): Promise<unknown> {
    const { method, path, body, contentType = 'application/json', accept = 'application/json' } = question
    const response = await send(connection.server + path, {
      method,
      dispatcher,
      headers: {
        ...(await connection.authenticate(fresh)),
        accept,
        ...(body !== undefined && { 'content-type': contentType }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      // undici ends the connection behind a DELETE that has a body, and the next claim would begin with a TLS handshake.
      reset: false,
      signal: withTimeout(attemptTimeoutMs, signal),
    })
    const text = await readText(response.body)
    if (response.statusCode >= 300) throw errorOf(response, text)
    return parseJson(text)
  }

  /**
   * Asks until there is an answer or the signal ends it: with jittered back-off, as the server asks, and with fresh
   * credentials after a 401. So each question must be safe to repeat, and whoever asks must know what a second
   * answer means: 409 to a create, 404 to a delete.
   */
  async function ask(question: Question, signal: AbortSignal): Promise<unknown> {
    const waits = createBackOff(backOff)
    let last: unknown
    while (!signal.aborted) {
      const isStale = isStatus(last, 401)
      try {
        return await attempt(question, signal, isStale)
      } catch (error) {
        if (signal.aborted) break
        const waitMs = waitBefore(error, { waits, isStale })
        last = error
        await delay(waitMs, signal).catch(() => undefined)
      }
    }
    throw overdue(signal, last)
  }

  /** The JSON objects of one long answer, from its first line to its end. */
  async function* stream(path: string, { fresh, signal, onBytes }: StreamOptions): AsyncGenerator<unknown> {
    const response = await send(connection.server + path, {
      dispatcher: streaming,
      headers: { ...(await connection.authenticate(fresh)), accept: 'application/json' },
      signal,
    })
    if (response.statusCode !== 200) throw errorOf(response, await readText(response.body))
    onBytes()
    for await (const line of readLines(response.body, onBytes)) yield parseJson(line)
  }

  return {
    ask,
    stream,
    async close(): Promise<void> {
      await Promise.all([dispatcher.destroy(), streaming.destroy()])
    },
  }
}

const errorOf = ({ statusCode, headers }: Dispatcher.ResponseData, text: string): KubeError =>
  new KubeError(statusCode, text, parseRetryAfter(headers['retry-after']))

/** A deadline is told with what it was spent on; any other reason is the caller's own. */
function overdue({ reason }: AbortSignal, last: unknown): unknown {
  if (!(reason instanceof DOMException) || reason.name !== 'TimeoutError') return reason
  const why = last === undefined ? 'it does not answer' : messageOf(last)
  return new SandboxError(
    'deadline_exceeded',
    `the API server was asked in vain until the deadline: ${why}`,
    {
      cause: last,
    },
  )
}

/** How long to wait before the next attempt. Throws an error that no repetition would change. */
function waitBefore(error: unknown, { waits, isStale }: { waits: BackOff; isStale: boolean }): number {
  if (isStatus(error, 401) && !isStale) return 0
  if (!isTransient(error)) throw error
  const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0
  return Math.max(waits.next(), Math.min(asked, MAX_RETRY_AFTER_MS))
}

/** An answer that was cut is no answer: its error is one that is tried again. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error('the API server sent no complete object', { cause: error })
  }
}
