import { randomUUID } from 'node:crypto'
import { PROBLEM_MEDIA_TYPE } from '../../contracts/errors.ts'
import { IDEMPOTENCY_HEADER } from '../../contracts/routes.ts'
import { delay } from '../kit/deadline.ts'
import { errnoOf, messageOf, SandboxError } from '../kit/errors.ts'
import { ProblemError, readProblem } from './problem-error.ts'

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface WireRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Query | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent as it is. A stream can be read once, so its request is never tried again. */
  readonly content?: { readonly type: string; readonly bytes: Uint8Array | AsyncIterable<Uint8Array> }
  /** One key for all tries of a mutation, so that it happens once; made where the caller gives none. */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Statuses that are an answer although they are no success. */
  readonly answers?: readonly number[]
}

export interface TransportOptions {
  readonly url: string
  readonly apiKey: string
  readonly fetch: typeof fetch
  /** Further tries after one that may be tried again. */
  readonly retries: number
}

export type Send = (request: WireRequest) => Promise<Response>

/** Refusals that say "not now" about a request that did nothing. */
const NOT_NOW: ReadonlySet<string> = new Set(['idempotency_unfinished', 'rate_limited', 'unavailable'])
const FIRST_RETRY_MS = 250
const LONGEST_RETRY_AFTER_MS = 30_000
/** A plain request; the service's own longest wait is that of a cancel, 2 s. */
const REQUEST_TIMEOUT_MS = 60_000
/** The longest that the service waits for an upload. */
const UPLOAD_TIMEOUT_MS = 900_000

/** Sends requests; a refusal becomes a `ProblemError`, an unreachable service `unavailable`. */
export function createTransport(options: TransportOptions): Send {
  return async (request) => {
    const wire = { init: initOf(options, request), request }
    const url = urlOf(options.url, request)
    const tries = isReadOnce(request) ? 1 : options.retries + 1
    for (let attempt = 1; attempt < tries; attempt++) {
      const outcome = await sendOnce(options.fetch, url, wire).catch((error: unknown) => ({ error }))
      if (outcome instanceof Response) return outcome
      const wait = retryDelayOf(outcome.error, attempt)
      if (wait === undefined) throw outcome.error
      await delay(wait, request.signal)
    }
    return sendOnce(options.fetch, url, wire)
  }
}

const isReadOnce = ({ content }: WireRequest): boolean =>
  content !== undefined && !(content.bytes instanceof Uint8Array)

async function sendOnce(
  send: typeof fetch,
  url: URL,
  { init, request }: { init: RequestInit; request: WireRequest },
): Promise<Response> {
  let response: Response
  const late = new AbortController()
  const timer = setTimeout(
    () => late.abort(new SandboxError('deadline_exceeded', `${url.pathname} did not answer in time`)),
    request.content ? UPLOAD_TIMEOUT_MS : REQUEST_TIMEOUT_MS,
  )
  try {
    const signal = request.signal ? AbortSignal.any([request.signal, late.signal]) : late.signal
    response = await send(url, { ...init, signal })
  } catch (error) {
    if (request.signal?.aborted) throw request.signal.reason
    throw error instanceof SandboxError ? error : unreachable(url, error)
  } finally {
    clearTimeout(timer)
  }
  if (response.ok || request.answers?.includes(response.status)) return response
  const problem = await readProblem(response)
  throw Object.assign(problem, { retryAfterMs: retryAfterOf(response) })
}

function unreachable(url: URL, error: unknown): SandboxError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const errno = errnoOf(cause)
  const why = errno === 'ECONNREFUSED' ? 'nothing listens there' : messageOf(cause)
  return new SandboxError(
    'unavailable',
    `The service at ${url.origin} cannot be reached: ${why}. \`npm start\` starts one on this machine.`,
    { cause },
  )
}

/** How long to wait before the next try; undefined where another try would not help. */
function retryDelayOf(error: unknown, attempt: number): number | undefined {
  if (!(error instanceof SandboxError) || !NOT_NOW.has(error.code)) return undefined
  if (errnoOf(error.cause) === 'ECONNREFUSED') return undefined
  const asked = error instanceof ProblemError && 'retryAfterMs' in error ? error.retryAfterMs : undefined
  if (typeof asked !== 'number') return FIRST_RETRY_MS * 2 ** (attempt - 1)
  return asked <= LONGEST_RETRY_AFTER_MS ? asked : undefined
}

function retryAfterOf(response: Response): number | undefined {
  const seconds = response.headers.get('retry-after')
  return seconds !== null && /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1000 : undefined
}

function urlOf(base: string, { path, query = {} }: WireRequest): URL {
  const url = new URL(path, base)
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  return url
}

function initOf({ apiKey }: TransportOptions, request: WireRequest): RequestInit {
  const { method, json, content, idempotencyKey = randomUUID() } = request
  const headers: Record<string, string> = {
    accept: `application/json, ${PROBLEM_MEDIA_TYPE}`,
    authorization: `Bearer ${apiKey}`,
    ...(method !== 'GET' && { [IDEMPOTENCY_HEADER]: idempotencyKey }),
    ...(json !== undefined && { 'content-type': 'application/json' }),
    ...(content && { 'content-type': content.type }),
    ...request.headers,
  }
  if (content) return { method, headers, body: content.bytes, duplex: 'half' }
  return { method, headers, ...(json !== undefined && { body: JSON.stringify(json) }) }
}
