import type { FastifyReply, FastifyRequest } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'
import type { Credential } from './credential.ts'

export type ReplyLimits = {
  /** Whose replies are counted together. */
  readonly requesterOf: (request: FastifyRequest) => string
  readonly perRequester: number
  readonly inAll: number
  /** For the messages: "You have 100 open event streams", and what to do. */
  readonly requester: string
  readonly what: string
  readonly remedy: string
  /** Called for each reply that is refused or ends before it is complete. */
  readonly onCut?: (reason: 'refused' | 'service_ended' | 'reader_closed') => void
}

/** Replies that stay open for long. Each needs memory or a connection, so their number is limited. */
export class OpenReplies {
  readonly #open = new Map<
    AbortController,
    { readonly requester: string; readonly credential: Credential | null }
  >()
  readonly #limits: ReplyLimits

  constructor(limits: ReplyLimits) {
    this.#limits = limits
  }

  /**
   * Returns a signal that aborts when the reader disconnects or the service ends its replies. Throws `too_many_streams` if a
   * limit is reached.
   */
  admit(request: FastifyRequest, reply: FastifyReply): AbortSignal {
    const requester = this.#limits.requesterOf(request)
    this.#refuseMore(requester)
    const controller = new AbortController()
    this.#open.set(controller, { requester, credential: request.credential })
    reply.raw.once('close', () => {
      this.#open.delete(controller)
      if (controller.signal.aborted) this.#limits.onCut?.('service_ended')
      else if (!reply.raw.writableFinished) this.#limits.onCut?.('reader_closed')
      controller.abort()
    })
    return controller.signal
  }

  #refuseMore(one: string): void {
    const { perRequester, inAll, requester, what, remedy } = this.#limits
    const refuse = (who: string, count: number) => {
      this.#limits.onCut?.('refused')
      throw new SandboxError(
        'too_many_streams',
        `${who} ${count} open ${what}, which is the limit. ${remedy}`,
      )
    }
    if (this.#open.size >= inAll) refuse('This service has', inAll)
    const own = [...this.#open.values()].filter(({ requester: other }) => other === one).length
    if (own >= perRequester) refuse(requester, perRequester)
  }

  /** API keys of the open replies. */
  apiKeyIds(): string[] {
    return [...this.#open.values()].flatMap(({ credential }) => credential?.apiKeyId ?? [])
  }

  endWhere(isInvalid: (credential: Credential) => boolean): void {
    for (const [controller, { credential }] of this.#open)
      if (credential && isInvalid(credential)) controller.abort()
  }

  endAll(): void {
    for (const controller of this.#open.keys()) controller.abort()
  }
}
