import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { withTimeout } from '../../kit/deadline.ts'
import { callerOf } from './authenticate.ts'
import { OpenReplies } from './open-replies.ts'

/** A download that takes longer ends. Until then it may keep megabytes in memory. */
const DOWNLOAD_TIMEOUT_MS = 600_000

const LIMITS = { perRequester: 4, inAll: 16 }

/** All open downloads of workspaces and results. */
export class Downloads {
  readonly replies: OpenReplies

  constructor(limits = LIMITS) {
    this.replies = new OpenReplies({
      ...limits,
      requesterOf: (request) => callerOf(request).owner,
      requester: 'You have',
      what: 'downloads',
      remedy: 'Wait until one of them has ended.',
    })
  }

  /** Throws `too_many_streams` if a limit is reached. The signal ends the source when the reader is gone or takes too long. */
  async send(
    request: FastifyRequest,
    reply: FastifyReply,
    open: (signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>,
  ): Promise<FastifyReply> {
    const signal = withTimeout(DOWNLOAD_TIMEOUT_MS, this.replies.admit(request, reply))
    return reply.send(Readable.from(await open(signal), { objectMode: false, signal }))
  }
}
