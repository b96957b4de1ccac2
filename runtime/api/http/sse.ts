import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RunEnvelope } from '../../../contracts/events.ts'
import { HEARTBEAT_MS } from '../../../contracts/limits.ts'
import { present } from '../../kit/present.ts'
import type { StreamCut } from '../metrics/process-metrics.ts'
import { callerOf } from './authenticate.ts'
import { OpenReplies } from './open-replies.ts'
import { Turns } from './turns.ts'

/** Reconnection delay for `EventSource`. */
const RETRY_MS = 1000

export type StreamLimits = {
  /** Maximum number of open event streams, per owner and in total. */
  readonly perKey: number
  readonly inAll: number
}

/** All open event streams, to limit their number and to end them at a shutdown. Readers can resume on another replica. */
export class OpenStreams {
  readonly replies: OpenReplies
  readonly #turns = new Turns()

  /** `onCut`: called for each stream that is refused or ends before it is complete. */
  constructor({ perKey, inAll }: StreamLimits, onCut?: (reason: StreamCut) => void) {
    this.replies = new OpenReplies({
      perRequester: perKey,
      inAll,
      requesterOf: (request) => callerOf(request).owner,
      requester: 'You have',
      what: 'event streams',
      remedy: 'Close some, or read pages of events.',
      ...present({ onCut }),
    })
  }

  /**
   * Returns a signal that aborts when the reader disconnects or the service closes its streams. Throws `too_many_streams`
   * if a limit is reached.
   */
  admit(request: FastifyRequest, reply: FastifyReply): AbortSignal {
    return this.replies.admit(request, reply)
  }

  /**
   * Sends events as they come. The source is pulled only as fast as the reader reads, so a slow reader costs one socket
   * buffer. The connection's idle timeout disconnects a reader that stops reading.
   */
  send(reply: FastifyReply, events: AsyncIterable<RunEnvelope>): FastifyReply {
    reply.header('x-accel-buffering', 'no').type('text/event-stream')
    return reply.send(Readable.from(encode(events, this.#turns), { objectMode: false }))
  }

  /** Sends one JSON document in pieces, as they come. It counts as an event stream, because it may wait as long. */
  sendJson(reply: FastifyReply, pieces: AsyncIterable<string>): FastifyReply {
    reply.header('x-accel-buffering', 'no').type('application/json')
    return reply.send(Readable.from(inTurns(pieces, this.#turns), { objectMode: false }))
  }

  /** Ends every stream between two events. */
  close(): void {
    this.replies.endAll()
  }
}

/** Characters that a stream may write before other streams and requests get a turn. */
const CHARACTERS_PER_TURN = 32_768

async function* encode(events: AsyncIterable<RunEnvelope>, turns: Turns): AsyncGenerator<string> {
  yield `retry: ${RETRY_MS}\n\n`
  await turns.next()
  let written = 0
  for await (const envelope of withHeartbeat(events, HEARTBEAT_MS)) {
    const frame = envelope ? encodeEvent(envelope) : ': heartbeat\n\n'
    yield frame
    written += frame.length
    if (written < CHARACTERS_PER_TURN) continue
    written = 0
    await turns.next()
  }
}

async function* inTurns(pieces: AsyncIterable<string>, turns: Turns): AsyncGenerator<string> {
  let written = 0
  for await (const piece of pieces) {
    yield piece
    written += piece.length
    if (written < CHARACTERS_PER_TURN) continue
    written = 0
    await turns.next()
  }
}

/** Encodes an event as a frame. JSON has no raw line breaks, but a type with one could inject a frame, so it throws. */
export function encodeEvent(envelope: RunEnvelope): string {
  const { type } = envelope.event
  if (/[\r\n]/.test(type)) throw new TypeError('an event type must be one line')
  return `id: ${envelope.sequence}\nevent: ${type}\ndata: ${JSON.stringify(envelope)}\n\n`
}

/** Yields the items of the source, and undefined after each period of silence. */
export async function* withHeartbeat<T>(
  source: AsyncIterable<T>,
  everyMs: number,
): AsyncGenerator<T | undefined> {
  const iterator = source[Symbol.asyncIterator]()
  // The next race handles a rejection that happens during a yield. Until then it must not count as unhandled.
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
