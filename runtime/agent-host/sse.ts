import { once } from 'node:events'
import type { FastifyReply } from 'fastify'
import { HEARTBEAT_MS } from '../../contracts/limits.ts'

export type SseFrame = { readonly id?: string; readonly event?: string; readonly data: string }

/** Encodes one SSE frame. Throws on a line break in `id` or `event`, which would forge another field. */
export function encodeSse({ id, event, data }: SseFrame): string {
  for (const field of [id, event])
    if (field && /[\r\n]/.test(field)) throw new TypeError('SSE field with a line break')
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`)
  return `${id === undefined ? '' : `id: ${id}\n`}${event === undefined ? '' : `event: ${event}\n`}${lines.join('')}\n`
}

/** Streams frames until the source ends or the client disconnects. A slow client slows down the source. */
export async function streamSse(
  reply: FastifyReply,
  source: (signal: AbortSignal) => AsyncIterable<SseFrame>,
) {
  const gone = new AbortController()
  const { raw } = reply
  reply.hijack()
  raw.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  })
  raw.flushHeaders()
  raw.on('close', () => gone.abort())
  const heartbeat = setInterval(() => raw.write(': heartbeat\n\n'), HEARTBEAT_MS)
  try {
    for await (const frame of source(gone.signal)) {
      if (!raw.write(encodeSse(frame))) await once(raw, 'drain', { signal: gone.signal })
    }
  } catch (error) {
    if (!gone.signal.aborted) throw error
  } finally {
    clearInterval(heartbeat)
    raw.end()
  }
}
