import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RunEnvelope } from '../../../contracts/events.ts'
import { HEARTBEAT_MS } from '../../../contracts/limits.ts'
import { SandboxError } from '../../kit/errors.ts'
import { Turns } from './turns.ts'

/** Told to `EventSource`: how long to wait before it comes back. */
const RETRY_MS = 1000

export type StreamLimits = {
  /** Event streams that may be open at a time, of one API key and in all. */
  readonly perKey: number
  readonly inAll: number
}

/** Every open event stream, so that they can be bounded, and ended by a shutdown; their readers resume elsewhere. */
export class OpenStreams {
  readonly #open = new Map<AbortController, string>()
  readonly #limits: StreamLimits
  readonly #turns = new Turns()

  constructor(limits: StreamLimits) {
    this.#limits = limits
  }

  /**
   * A signal that aborts when the reader leaves or the service closes its streams. Throws `too_many_streams` where the key
   * or the service has as many streams as it may.
   */
  admit(request: FastifyRequest, reply: FastifyReply): AbortSignal {
    const keyId = request.credential?.keyId ?? ''
    this.#refuseMore(keyId)
    const controller = new AbortController()
    this.#open.set(controller, keyId)
    reply.raw.once('close', () => {
      this.#open.delete(controller)
      controller.abort()
    })
    return controller.signal
  }

  #refuseMore(keyId: string): void {
    const { perKey, inAll } = this.#limits
    if (this.#open.size >= inAll) throw tooManyStreams(`This service has ${inAll} open event streams`)
    const own = [...this.#open.values()].filter((other) => other === keyId).length
    if (own >= perKey) throw tooManyStreams(`This API key has ${perKey} open event streams`)
  }

  /**
   * Answers with events as they come. The source is pulled only as fast as the reader reads, so a slow reader costs
   * one buffer of the socket; one that stops reading is cut off by the connection's idle timeout.
   */
  send(reply: FastifyReply, events: AsyncIterable<RunEnvelope>): FastifyReply {
    reply.header('x-accel-buffering', 'no').type('text/event-stream')
    return reply.send(Readable.from(encode(events, this.#turns), { objectMode: false }))
  }

  /** Ends every stream between two events. */
  close(): void {
    for (const controller of this.#open.keys()) controller.abort()
  }
}

const tooManyStreams = (what: string) =>
  new SandboxError('too_many_streams', `${what}, which is the limit. Close some, or read pages of events.`)

/** A reader that takes everything at once gets so much before the other readers, and all other requests, have a turn. */
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
