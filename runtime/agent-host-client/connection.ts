import { Agent, type Dispatcher, fetch, type RequestInit, type Response } from 'undici'
import type { z } from 'zod'
import { Problem } from '../../contracts/errors.ts'
import { delay } from '../kit/deadline.ts'
import { errnoOf, messageOf, SandboxError } from '../kit/errors.ts'
import type { ConnectionGuard } from './connection-guard.ts'
import {
  type PreparedConnections,
  VerifiedConnections,
  type VerifiedConnectionsOptions,
} from './verified-connections.ts'

/**
 * The address of an AgentHost. On a laptop it is a Unix socket, whose folder proves the owner. For a pod it is a base
 * URL, and the guard checks the server's identity on every new connection.
 */
export type AgentHostAddress =
  | { readonly socketPath: string }
  | {
      readonly baseUrl: string
      readonly guard: ConnectionGuard
      /** Prepared connections to this address, which the first requests use. */
      readonly prepared?: PreparedConnections
    }

/**
 * The longest response is a listing: `FILE_LIMITS.listPage` paths of `FILE_LIMITS.maxPathBytes`, six characters for a
 * byte.
 */
export const MAX_ANSWER_BYTES = 33_554_432

/** Sends requests to one AgentHost. Streams have no timeout here, because the heartbeat detects a lost connection. */
export function connectAgentHost(address: AgentHostAddress, bearer: string) {
  const local = 'socketPath' in address
  const baseUrl = local ? 'http://agent-host' : address.baseUrl.replace(/\/$/, '')
  const { dispatcher, close } = local
    ? openLocal(address.socketPath)
    : openVerified({ baseUrl, guard: address.guard, prepared: address.prepared })

  /** `Authorization` is the run's bearer unless the request has its own. */
  async function request(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${bearer}`, ...(init.headers as Record<string, string>) }
    try {
      // A redirect would send the configuration of a run to any address that the pod chooses.
      return await fetch(`${baseUrl}${path}`, { ...init, headers, dispatcher, redirect: 'error' })
    } catch (error) {
      const { signal } = init
      if (!signal?.aborted) throw silent(error)
      throw isTimeout(signal.reason) ? silent(signal.reason) : signal.reason
    }
  }

  /**
   * Sends a request that AgentHost recognises by an id from the caller. A broken connection does not show whether the
   * request arrived, so it is sent again. The pauses give time to notice that other idle connections broke too.
   */
  async function repeatable(path: string, init: RequestInit = {}): Promise<Response> {
    for (const pauseMs of REPEAT_AFTER_MS) {
      try {
        return await request(path, init)
      } catch (error) {
        if (!isBroken(error)) throw error
        await delay(pauseMs, init.signal ?? undefined)
      }
    }
    return request(path, init)
  }

  return {
    baseUrl,
    request,
    repeatable,
    /** Returns the response if it is a success; otherwise throws the error of its problem document. */
    async expectOk(path: string, init: RequestInit = {}, send = request): Promise<Response> {
      const response = await send(path, init)
      if (response.ok) return response
      throw await faultOf(response)
    },
    close,
  }
}

/** A dispatcher for requests, and the function that closes its connections. */
interface Transport {
  readonly dispatcher: Dispatcher
  readonly close: () => Promise<void>
}

function openLocal(socketPath: string): Transport {
  const dispatcher = new Agent({ bodyTimeout: 0, headersTimeout: 0, pipelining: 1, connect: { socketPath } })
  return { dispatcher, close: () => dispatcher.destroy() }
}

function openVerified(options: VerifiedConnectionsOptions): Transport {
  const dispatcher = new VerifiedConnections(options)
  return { dispatcher, close: () => dispatcher.end() }
}

const isTimeout = (error: unknown): boolean => error instanceof DOMException && error.name === 'TimeoutError'

/**
 * `fetch` wraps the reason one level down. An error of the guard is kept as it is, and a deadline of the client is not
 * reported as a lost sandbox.
 */
function silent(error: unknown): SandboxError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  if (cause instanceof SandboxError) return cause
  if (isTimeout(cause))
    return new SandboxError('deadline_exceeded', 'AgentHost did not respond in time', { cause })
  return new SandboxError('sandbox_lost', `AgentHost cannot be reached: ${withoutAddress(cause)}`, {
    cause,
  })
}

/** The system's error message without the pod's address or the socket's path, because the run's owner reads it. */
function withoutAddress(error: unknown): string {
  const code = errnoOf(error)
  if (code === 'UND_ERR_CONNECT_TIMEOUT') return 'the connection took too long'
  return error instanceof Error && 'syscall' in error ? `${error.syscall} ${code}` : messageOf(error)
}

const REPEAT_AFTER_MS = [5, 50, 200]
const BROKEN: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

const isBroken = (error: unknown): boolean =>
  error instanceof SandboxError && BROKEN.has(errnoOf(error.cause) ?? '')

/** Converts an error response to a `SandboxError`; a response without a problem document is `sandbox_lost`. */
export async function faultOf(response: Response): Promise<SandboxError> {
  const text = await wholeBody(response)
  try {
    const problem = Problem.parse(JSON.parse(text))
    return new SandboxError(problem.code, problem.detail)
  } catch (error) {
    return malformed(`AgentHost responded with ${response.status}: ${text.slice(0, 200)}`, error)
  }
}

/**
 * Yields the body of a response, up to `maxBytes`. Callers that stream the body on without buffering it apply their own
 * limit. A body that breaks off is reported as a lost sandbox, not as a closed socket. So is a body over the limit,
 * because AgentHost never sends that much.
 */
export async function* bodyOf(
  response: Response,
  maxBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  try {
    for await (const chunk of response.body ?? []) {
      bytes += (chunk as Uint8Array).byteLength
      if (bytes > maxBytes)
        throw new SandboxError('sandbox_lost', `AgentHost sent more than ${maxBytes} bytes`)
      yield chunk as Uint8Array
    }
  } catch (error) {
    throw error instanceof SandboxError ? error : silent(error)
  }
}

/** Returns the complete body as text. A buffered body always needs a limit. */
export async function wholeBody(response: Response): Promise<string> {
  return Buffer.concat(await Array.fromAsync(bodyOf(response, MAX_ANSWER_BYTES))).toString()
}

/** Parses a response; `sandbox_lost` for any other format, because the sandbox cannot be trusted then. */
export async function answerOf<T>(response: Response, schema: z.ZodType<T>): Promise<T> {
  const text = await wholeBody(response)
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    throw malformed('AgentHost sent a response in an unknown format', error)
  }
}

/** A schema error about a long text is longer than the text. It goes into a log, so only its beginning is kept. */
export const malformed = (what: string, error: unknown) =>
  new SandboxError('sandbox_lost', what, { cause: new Error(messageOf(error).slice(0, 500)) })

export type AgentHostConnection = ReturnType<typeof connectAgentHost>
