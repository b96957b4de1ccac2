import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { JSON_LINES_MEDIA_TYPE } from '../../../contracts/routes.ts'

export const sendLines = (reply: FastifyReply, texts: AsyncIterable<string>): FastifyReply =>
  reply.type(JSON_LINES_MEDIA_TYPE).send(Readable.from(texts, { objectMode: false }))

/** One line of JSON per value, until the client is gone. */
export async function* lines(values: AsyncIterable<unknown>, signal: AbortSignal): AsyncGenerator<string> {
  for await (const value of values) {
    if (signal.aborted) return
    yield `${JSON.stringify(value)}\n`
  }
}
