import { randomUUID } from 'node:crypto'
import { PROBLEM_MEDIA_TYPE } from '../../contracts/errors.ts'
import { IDEMPOTENCY_HEADER } from '../../contracts/routes.ts'
import { delay } from '../kit/deadline.ts'
import { errnoOf, messageOf, SandboxError } from '../kit/errors.ts'
import { directFetch, isLoopbackUrl } from './direct-fetch.ts'
import { ProblemError, readProblem } from './problem-error.ts'

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface WireRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Query | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent unchanged. A request with a stream is never retried, because the stream can be read only once. */
  readonly content?: { readonly type: string; readonly bytes: Uint8Array | AsyncIterable<Uint8Array> }
  /** One key for all retries of a mutation. @default a random UUID */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Until the response, in milliseconds. @default 60 s, and 15 minutes with an upload */
  readonly limitMs?: number | undefined
  /** Error statuses whose body is a regular response. */
  readonly answers?: readonly number[]
}

/** Where the service listens: a URL such as `http://127.0.0.1:8080`, or its Unix socket. */
export type ServiceAddress =
  | { readonly url: string; readonly socketPath?: undefined }
  | { readonly socketPath: string; readonly url?: undefined }

/** Supplies access tokens, which expire and are renewed. */
export interface TokenSource {
  /** The token for the next request. */
  current(): Promise<string>
  /** The service refused this token with 401. Returns another one, or undefined if there is none. */
  renew(refused: string): Promise<string | undefined>
}

export type TransportOptions = ServiceAddress & {
  /** Absent for the open routes. */
  readonly apiKey?: string | TokenSource
  readonly fetch?: typeof fetch
  /** Retries after a failure that may be temporary. */
  readonly retries: number
}

type Wire = {
  readonly baseUrl: string
  readonly fetch: typeof fetch
  readonly tokens: TokenSource | undefined
}

const fixed = (apiKey: string): TokenSource => ({
  current: async () => apiKey,
  renew: async () => undefined,
})

/** HTTP needs a host even over a Unix socket. */
const SOCKET_URL = 'http://localhost'

function wireOf({ url, socketPath, apiKey, fetch }: TransportOptions): Wire {
  const tokens = typeof apiKey === 'string' ? fixed(apiKey) : apiKey
  if (url === undefined) return { baseUrl: SOCKET_URL, tokens, fetch: fetch ?? directFetch({ socketPath }) }
  const byUrl = isLoopbackUrl(new URL(url)) ? directFetch() : globalThis.fetch
  return { baseUrl: url, tokens, fetch: fetch ?? byUrl }
}

export interface Transport {
  /** Resolves when the response headers have arrived. The body may be an endless stream. */
  open(request: WireRequest): Promise<Response>
  /** The whole response as text. A connection that breaks in the middle is retried too. */
  read(request: WireRequest): Promise<string>
}

/** Temporary errors of requests that had no effect. */
const NOT_NOW: ReadonlySet<string> = new Set(['rate_limited', 'unavailable'])
const FIRST_RETRY_MS = 250
const LONGEST_RETRY_AFTER_MS = 30_000
/** For requests without upload. The service's longest own wait is 2 s (cancel). */
const REQUEST_TIMEOUT_MS = 60_000
/** The longest that the service waits for an upload. */
const UPLOAD_TIMEOUT_MS = 900_000

/** Sends requests. Throws `ProblemError` for an error response, `unavailable` for an unreachable service. */
export function createTransport(options: TransportOptions): Transport {
  const wire = wireOf(options)
  const sendAs = async <T>(request: WireRequest, take: (response: Response) => Promise<T>): Promise<T> => {
    const attempt = attemptOf(wire, request, take)
    const tries = isReadOnce(request) ? 1 : options.retries + 1
    for (let count = 1; count < tries; count++) {
      const outcome = await attempt().then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      )
      if ('value' in outcome) return outcome.value
      const wait = retryDelayOf(outcome.error, count)
      if (wait === undefined) throw outcome.error
      await delay(wait, request.signal)
    }
    return attempt()
  }
  return {
    open: (request) => sendAs(request, async (response) => response),
    read: (request) => sendAs(request, (response) => response.text()),
  }
}

const isReadOnce = ({ content }: WireRequest): boolean =>
  content !== undefined && !(content.bytes instanceof Uint8Array)

/** Returns a function that makes one attempt. All attempts share the idempotency key; each has its own deadline. */
function attemptOf<T>(
  wire: Wire,
  request: WireRequest,
  take: (response: Response) => Promise<T>,
): () => Promise<T> {
  const url = urlOf(wire.baseUrl, request)
  const init = initOf(request)
  const send = async (token: string | undefined): Promise<T> => {
    const limit = startLimit(request, url)
    try {
      const headers = { ...init.headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) }
      const response = await wire.fetch(url, { ...init, headers, signal: limit.signal })
      refuseRedirect(response, url)
      if (!isAnswer(response, request)) throw await refusalOf(response)
      return await take(response)
    } catch (error) {
      request.signal?.throwIfAborted()
      throw error instanceof SandboxError ? error : unreachable(url, error)
    } finally {
      limit.clear()
    }
  }
  return () => withToken(wire.tokens, send, isReadOnce(request))
}

/** Sends with the current token. After a 401, sends once more with a renewed one, unless the body can be read only once. */
async function withToken<T>(
  tokens: TokenSource | undefined,
  send: (token: string | undefined) => Promise<T>,
  isSentOnce: boolean,
): Promise<T> {
  const token = await tokens?.current()
  try {
    return await send(token)
  } catch (error) {
    const isRefused = error instanceof ProblemError && error.status === 401
    if (token === undefined || !isRefused || isSentOnce) throw error
    const other = await tokens?.renew(token)
    if (other === undefined) throw error
    return send(other)
  }
}

/** Redirects are not followed, so that the API key is not sent to an address that the user did not configure. */
function refuseRedirect({ status, headers }: Response, { origin }: URL): void {
  const target = headers.get('location')
  if (status < 300 || status >= 400 || target === null) return
  throw new SandboxError(
    'forbidden',
    `${origin} redirects to ${target.slice(0, 200)}, which is not followed. If the service is there, name its URL.`,
  )
}

const isAnswer = ({ ok, status }: Response, { answers }: WireRequest): boolean =>
  ok || answers?.includes(status) === true

const refusalOf = async (response: Response): Promise<ProblemError> =>
  Object.assign(await readProblem(response), { retryAfterMs: retryAfterOf(response) })

/** Combines the caller's signal with a deadline. The deadline can be cleared, because a stream may last longer. */
function startLimit({ content, signal, limitMs }: WireRequest, { pathname }: URL) {
  const late = new AbortController()
  const timer = setTimeout(
    () => late.abort(new SandboxError('deadline_exceeded', `${pathname} did not respond in time`)),
    limitMs ?? (content ? UPLOAD_TIMEOUT_MS : REQUEST_TIMEOUT_MS),
  )
  return {
    signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal,
    clear: () => clearTimeout(timer),
  }
}

function unreachable({ origin }: URL, error: unknown): SandboxError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const why = isSilent(cause) ? 'nothing listens there' : messageOf(cause)
  return new SandboxError(
    'unavailable',
    `The service${origin === SOCKET_URL ? '' : ` at ${origin}`} cannot be reached: ${why}. \`agentweaver serve\` starts one on this machine.`,
    { cause },
  )
}

/** Whether no program listens at the port or socket. */
const isSilent = (cause: unknown): boolean => ['ECONNREFUSED', 'ENOENT'].includes(errnoOf(cause) ?? '')

/** The wait before the next attempt; undefined if a retry cannot help. */
function retryDelayOf(error: unknown, attempt: number): number | undefined {
  if (!(error instanceof SandboxError) || !NOT_NOW.has(error.code)) return undefined
  if (isSilent(error.cause)) return undefined
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

/** The request without its credential. */
function initOf(request: WireRequest): RequestInit & { readonly headers: Record<string, string> } {
  const { method, json, content, idempotencyKey = randomUUID() } = request
  const headers: Record<string, string> = {
    accept: `application/json, ${PROBLEM_MEDIA_TYPE}`,
    ...(method !== 'GET' && { [IDEMPOTENCY_HEADER]: idempotencyKey }),
    ...(json !== undefined && { 'content-type': 'application/json' }),
    ...(content && { 'content-type': content.type }),
    ...request.headers,
  }
  const common = { method, headers, redirect: 'manual' } as const
  if (content) return { ...common, body: content.bytes, duplex: 'half' }
  return { ...common, ...(json !== undefined && { body: JSON.stringify(json) }) }
}
