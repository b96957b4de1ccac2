import type { EgressGrant } from '../../../contracts/egress-control.ts'
import { EGRESS_TOKEN } from '../../../contracts/egress-control.ts'
import type { AgentHostClient } from '../../agent-host-client/client.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'

/** Two renewals may fail before the token of a sandbox ends. */
const RENEW_MS = (EGRESS_TOKEN.lifetimeSeconds * 1000) / 3
const RETRY_MS = 10_000
const SEND_MS = 10_000

export interface AccessRenewalOptions {
  readonly client: Pick<AgentHostClient, 'giveEgress'>
  /** Signs new tokens. */
  readonly sign: () => Promise<EgressGrant>
  readonly log: Log
}

/** Gives a sandbox its tokens for the egress proxy, and new ones before they end. */
export class AccessRenewal {
  readonly #options: AccessRenewalOptions
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: AccessRenewalOptions) {
    this.#options = options
  }

  /** Never fails: the sandbox waits for its tokens, and they are sent again. */
  async give(): Promise<void> {
    const { client, sign, log } = this.#options
    let nextMs = RENEW_MS
    try {
      await client.giveEgress(await sign(), AbortSignal.timeout(SEND_MS))
    } catch (error) {
      nextMs = RETRY_MS
      log.warn('a sandbox could not be given its network tokens', { error: messageOf(error) })
    }
    if (this.#isStopped) return
    this.#timer = setTimeout(() => void this.give(), nextMs)
    this.#timer.unref()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }
}
