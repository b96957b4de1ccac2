import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { RunEnvelope } from '../../contracts/events.ts'
import { HEARTBEAT_MS } from '../../contracts/limits.ts'
import { LAST_EVENT_ID_HEADER } from '../../contracts/routes.ts'
import { delay } from '../kit/deadline.ts'
import { SandboxError } from '../kit/errors.ts'
import { ProblemError } from './problem-error.ts'
import type { Transport } from './transport.ts'

export interface EventStreamOptions {
  /** The last sequence that the caller has received; 0 for none. */
  readonly after?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Called after each broken connection, before reconnecting, to show progress to a user. */
  readonly onBreak?: (() => void) | undefined
}

/** A connection without data for three heartbeats counts as broken. */
const SILENCE_MS = 3 * HEARTBEAT_MS
const BACK_OFF_MS = [100, 250, 500, 1000, 2000, 4000, 5000]
/** Consecutive connections without an event before the stream fails: about half a minute with this back-off. */
const MAX_FRUITLESS = 10

/**
 * Streams a run's events after a sequence, each once and in order, until `done`. Resumes after a broken connection. Throws on
 * an error response, and if the service stays unreachable.
 */
export async function* followEvents(
  transport: Transport,
  path: string,
  { after = 0, signal, onBreak }: EventStreamOptions = {},
): AsyncGenerator<RunEnvelope> {
  let cursor = after
  let hasEnded = false
  const onEnded = () => {
    hasEnded = true
  }
  for (let fruitless = 0; fruitless < MAX_FRUITLESS; fruitless++) {
    const connection = tolerant(connect(transport, path, { after: cursor, signal, onEnded }))
    for await (const envelope of inOrder(connection, cursor)) {
      cursor = envelope.sequence
      fruitless = 0
      yield envelope
      if (envelope.event.type === 'done') return
    }
    if (hasEnded) return
    signal?.throwIfAborted()
    onBreak?.()
    await delay(BACK_OFF_MS[Math.min(fruitless, BACK_OFF_MS.length - 1)] ?? 0, signal)
  }
  throw new SandboxError('unavailable', `The event stream ${path} broke and could not be taken up again.`)
}

/** Drops repeated events. Throws on a gap, which is a bug of the service. */
async function* inOrder(events: AsyncIterable<RunEnvelope>, after: number): AsyncGenerator<RunEnvelope> {
  let cursor = after
  for await (const envelope of events) {
    if (envelope.sequence <= cursor) continue
    if (envelope.sequence !== cursor + 1) throw gap(cursor, envelope.sequence)
    cursor = envelope.sequence
    yield envelope
  }
}

/** Ends normally on an error after which a reconnect may help. Rethrows every other error. */
async function* tolerant(events: AsyncIterable<RunEnvelope>): AsyncGenerator<RunEnvelope> {
  try {
    yield* events
  } catch (error) {
    if (!isWorthAnotherTry(error)) throw error
  }
}

/** The events of one connection. Calls `onEnded` if the service has no more events. */
async function* connect(
  transport: Transport,
  path: string,
  { after, signal, onEnded }: { after: number; signal: AbortSignal | undefined; onEnded: () => void },
): AsyncGenerator<RunEnvelope> {
  const silence = new AbortController()
  const stop = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal
  const headers = { accept: 'text/event-stream', ...(after > 0 && { [LAST_EVENT_ID_HEADER]: String(after) }) }
  const response = await transport.open({ method: 'GET', path, headers, signal: stop })
  if (response.status === 204) return onEnded()
  const messages: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (message) => messages.push(message) })
  const decoder = new TextDecoder()
  const watchdog = setTimeout(
    () => silence.abort(new SandboxError('unavailable', 'the stream went silent')),
    SILENCE_MS,
  )
  try {
    for await (const chunk of response.body ?? []) {
      watchdog.refresh()
      parser.feed(decoder.decode(chunk, { stream: true }))
      for (const message of messages.splice(0)) yield RunEnvelope.parse(JSON.parse(message.data))
    }
  } finally {
    clearTimeout(watchdog)
    silence.abort()
  }
}

/** True for network errors (`TypeError` of `fetch`) and for temporary error responses. */
export function isWorthAnotherTry(error: unknown): boolean {
  if (error instanceof ProblemError) return error.status >= 500 || error.status === 429
  if (error instanceof SandboxError) return error.code === 'unavailable'
  return error instanceof TypeError
}

const gap = (cursor: number, next: number) =>
  new SandboxError('internal', `The service sent event ${next} after event ${cursor}; some are missing.`)
