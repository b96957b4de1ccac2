import type { ShareDecision } from '../../contracts/egress-budgets.ts'
import type { EgressLimits } from './limits.ts'

export interface Shares {
  /** Takes a share of the rest of the run. `missing`: bytes that passed without a share. */
  readonly take: (missing: number) => Promise<ShareDecision>
  /** Reports how much of all shares is left at the end. Less than 0 if more has passed. */
  readonly settle: (unused: number) => void
}

export interface AllowanceOptions {
  readonly limits: EgressLimits
  /** The rest of the run, if this process serves the sandbox alone. */
  readonly left: number
  readonly shares?: Shares | undefined
}

/**
 * The bytes that one process of the proxy may let pass for a sandbox. Other replicas of the proxy may serve the same sandbox,
 * so the process takes shares of the rest from the API, the next one while half of the last one is left.
 */
export class ByteAllowance {
  readonly #limits: EgressLimits
  readonly #shares: Shares | undefined
  #allowed: number
  #lastShare = 0
  #isLast: boolean
  #isAsking = false
  #isClosed = false

  constructor({ limits, left, shares }: AllowanceOptions) {
    this.#limits = limits
    this.#shares = shares
    this.#allowed = shares ? 0 : left
    this.#isLast = shares === undefined
  }

  /** Whether the API has granted everything that was left. */
  get isLast(): boolean {
    return this.#isLast
  }

  /** Without the last share, some more bytes may pass, because the API may be away for a moment. */
  isSpent(bytes: number): boolean {
    return bytes >= this.#allowed + (this.#isLast ? 0 : this.#limits.bytesBeyondShare)
  }

  /** Takes another share when half of the last one is used. */
  refill(bytes: number): void {
    if (this.#isLast || this.#isAsking || this.#isClosed) return
    if (bytes < this.#allowed - this.#lastShare / 2) return
    this.#isAsking = true
    void this.#take(Math.max(0, bytes - this.#allowed)).finally(() => {
      this.#isAsking = false
    })
  }

  close(bytes: number): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#settle(this.#allowed - bytes)
  }

  #settle(unused: number): void {
    if (unused !== 0) this.#shares?.settle(unused)
  }

  async #take(missing: number): Promise<void> {
    // A share that could not be taken is asked for again at the next measurement.
    const share = await this.#shares?.take(missing).catch(() => undefined)
    if (!share) return
    if (this.#isClosed) this.#settle(share.granted)
    this.#allowed += share.granted
    this.#lastShare = share.granted
    this.#isLast = share.isLast
  }
}
