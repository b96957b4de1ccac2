import { randomUUID } from 'node:crypto'
import { Agent, fetch } from 'undici'
import type { Replica } from '../world/replica.ts'

export type Answer = { readonly status: number; readonly body: unknown }

export type Ask = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly json?: unknown
  readonly key?: string
  readonly timeoutMs?: number
  /** The response to a command is its id, and not its result. */
  readonly prefersAsync?: boolean
}

export type Http = ReturnType<typeof createHttp>

const TIMEOUT_MS = 8_000

/** A plain HTTP client without retries, so that every response is seen as it was sent. */
export function createHttp(apiKey: string) {
  const agent = new Agent({ connections: 200 })
  const headers = { authorization: `Bearer ${apiKey}` }
  return {
    /** Undefined if there was no complete response. */
    async ask(
      replica: Replica,
      { method, path, json, key, timeoutMs, prefersAsync }: Ask,
    ): Promise<Answer | undefined> {
      try {
        const response = await fetch(`${replica.url}${path}`, {
          method,
          dispatcher: agent,
          headers: {
            ...headers,
            ...(json !== undefined && { 'content-type': 'application/json' }),
            ...(prefersAsync && { prefer: 'respond-async' }),
            ...(method !== 'GET' && { 'idempotency-key': key ?? randomUUID() }),
          },
          ...(json !== undefined && { body: JSON.stringify(json) }),
          signal: AbortSignal.timeout(timeoutMs ?? TIMEOUT_MS),
        })
        const text = await response.text()
        return { status: response.status, body: text === '' ? null : JSON.parse(text) }
      } catch {
        return undefined
      }
    },
    /** A response that is no JSON. */
    async askText(replica: Replica, path: string): Promise<string | undefined> {
      try {
        const signal = AbortSignal.timeout(60_000)
        const response = await fetch(`${replica.url}${path}`, { dispatcher: agent, headers, signal })
        return response.ok ? await response.text() : undefined
      } catch {
        return undefined
      }
    },
    /** The body of an event stream; undefined without a body. */
    async stream(
      replica: Replica,
      path: string,
      options: { readonly after: number; readonly signal: AbortSignal },
    ) {
      try {
        const response = await fetch(`${replica.url}${path}`, {
          dispatcher: agent,
          headers: {
            ...headers,
            accept: 'text/event-stream',
            ...(options.after > 0 && { 'last-event-id': String(options.after) }),
          },
          signal: options.signal,
        })
        return { status: response.status, body: response.body }
      } catch {
        return undefined
      }
    },
    close: () => agent.destroy(),
  }
}

/** True for a response that ends the attempts: done, or refused for good. */
export const isDefinite = (answer: Answer | undefined): answer is Answer =>
  answer !== undefined && answer.status < 500 && answer.status !== 425 && answer.status !== 429
