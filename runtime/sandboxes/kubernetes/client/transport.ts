import { Agent, type Dispatcher, request as send } from 'undici'
import { delay, withTimeout } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import { type BackOff, createBackOff } from './back-off.ts'
import type { KubeConnection } from './kube-connection.ts'
import { isStatus, isTransient, KubeError, parseRetryAfter } from './kube-error.ts'
import { readLines, readText } from './response-body.ts'

export interface TransportOptions {
  /** An attempt without a response after this time is retried. */
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
  /** Bypass the header cache, because the last attempt got a 401. */
  readonly fresh: boolean
  readonly signal: AbortSignal
  /** Called whenever data arrives. */
  readonly onBytes: () => void
}

/** Upper bound for `Retry-After`; a longer wait would exceed our deadlines. */
const MAX_RETRY_AFTER_MS = 30_000
const MAX_CONNECTIONS = 64
const KEEP_ALIVE_MS = 15_000
/** undici closes idle connections after 4 s by default, the API server after 90 s. Each new one costs a TLS handshake. */
const IDLE_MS = 60_000

/** HTTP to one API server. Requests are retried, streams are not. */
export function createTransport(connection: KubeConnection, options: TransportOptions = TRANSPORT_DEFAULTS) {
  const { attemptTimeoutMs, backOff } = options
  const dispatcher = new Agent({
    connect: { ...connection.tls },
    connections: MAX_CONNECTIONS,
    keepAliveTimeout: IDLE_MS,
  })
  // Streams have their own connections, so that requests do not wait for a connection.
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
      // By default undici closes the connection after a DELETE with a body; the next claim would need a TLS handshake.
      reset: false,
      signal: withTimeout(attemptTimeoutMs, signal),
    })
    const text = await readText(response.body)
    if (response.statusCode >= 300) throw errorOf(response, text)
    return parseJson(text)
  }

  /**
   * Retries until there is a response or the signal aborts, with jittered back-off, `Retry-After`, and fresh credentials after
   * a 401. So each request must be safe to repeat, and the caller must expect 409 for a repeated create and 404 for a
   * repeated delete.
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

  /** Yields the JSON objects of a streamed response. */
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

/** Turns a timeout into an error with the last failure; returns any other abort reason unchanged. */
function overdue({ reason }: AbortSignal, last: unknown): unknown {
  if (!(reason instanceof DOMException) || reason.name !== 'TimeoutError') return reason
  const why = last === undefined ? 'no response' : messageOf(last)
  return new SandboxError(
    'deadline_exceeded',
    `the request to the API server did not succeed before the deadline: ${why}`,
    {
      cause: last,
    },
  )
}

/** Returns the wait before the next attempt. Throws the error if a retry cannot help. */
function waitBefore(error: unknown, { waits, isStale }: { waits: BackOff; isStale: boolean }): number {
  if (isStatus(error, 401) && !isStale) return 0
  if (!isTransient(error)) throw error
  const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0
  return Math.max(waits.next(), Math.min(asked, MAX_RETRY_AFTER_MS))
}

/** A truncated response is retried like a missing one. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error('the response of the API server is truncated', { cause: error })
  }
}
