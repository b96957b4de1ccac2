import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { RunEnvelope } from '../../../contracts/events.ts'
import { HEARTBEAT_MS } from '../../../contracts/limits.ts'

/** Told to `EventSource`: how long to wait before it comes back. */
const RETRY_MS = 1000

/** Every open event stream, so that a shutdown can end them; their readers resume elsewhere. */
export class OpenStreams {
  readonly #open = new Set<AbortController>()

  /** A signal that aborts when the reader leaves or the service closes its streams. */
  signalFor(reply: FastifyReply): AbortSignal {
    const controller = new AbortController()
    this.#open.add(controller)
    reply.raw.once('close', () => {
      this.#open.delete(controller)
      controller.abort()
    })
    return controller.signal
  }

  /** Ends every stream between two events. */
  close(): void {
    for (const controller of this.#open) controller.abort()
  }
}

/**
 * Answers with events as they come. The source is pulled only as fast as the reader reads, so a slow reader costs
 * one buffer of the socket; one that stops reading is cut off by the connection's idle timeout.
 */
export function sendEvents(
  reply: FastifyReply,
  events: AsyncIterable<RunEnvelope>,
  heartbeatMs = HEARTBEAT_MS,
): FastifyReply {
  reply.header('x-accel-buffering', 'no').type('text/event-stream')
  return reply.send(Readable.from(encode(events, heartbeatMs), { objectMode: false }))
}

async function* encode(events: AsyncIterable<RunEnvelope>, heartbeatMs: number): AsyncGenerator<string> {
  yield `retry: ${RETRY_MS}\n\n`
  for await (const envelope of withHeartbeat(events, heartbeatMs)) {
    yield envelope ? encodeEvent(envelope) : ': heartbeat\n\n'
  }
}

/** One event as a frame. JSON has no raw line breaks; a type with one would forge a frame and is refused. */
export function encodeEvent(envelope: RunEnvelope): string {
  const { type } = envelope.event
  if (/[\r\n]/.test(type)) throw new TypeError('an event type must be one line')
  return `id: ${envelope.sequence}\nevent: ${type}\ndata: ${JSON.stringify(envelope)}\n\n`
}

/** The source's items, and undefined whenever it was silent for so long. */
export async function* withHeartbeat<T>(
  source: AsyncIterable<T>,
  everyMs: number,
): AsyncGenerator<T | undefined> {
  const iterator = source[Symbol.asyncIterator]()
  // A failure during a yield is met by the next race; until then nobody else may see it as unhandled.
  const pull = () => {
    const item = iterator.next()
    item.catch(() => undefined)
    return item
  }
  try {
    let next = pull()
    while (true) {
      const beat = startBeat(everyMs)
      const item = await Promise.race([next, beat.promise])
      beat.stop()
      if (item === undefined) {
        yield undefined
        continue
      }
      if (item.done) return
      yield item.value
      next = pull()
    }
  } finally {
    await iterator.return?.()
  }
}

function startBeat(ms: number) {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(resolve, ms, undefined)
  return { promise, stop: () => clearTimeout(timer) }
}
