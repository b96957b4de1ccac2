import { EGRESS_LEASE } from '../../../contracts/egress-control.ts'
import type { Refusal } from '../refusals.ts'

export interface LeaseOptions {
  /** Called when the grace after the end of the lease is over. */
  readonly onOver: () => void
  /** @default monotonic time, in milliseconds */
  readonly now?: () => number
}

const CLOSED: Refusal = {
  rule: 'proxy-unavailable',
  reason: 'the egress proxy cannot reach the service that says what is allowed',
  remedy: 'Try again in some seconds.',
}

/**
 * The right to open connections. Each message of the control stream renews it, so that a proxy without a connection to
 * the API does not keep enforcing an older state.
 */
export class Lease {
  readonly #options: LeaseOptions
  readonly #now: () => number
  #until = Number.NEGATIVE_INFINITY
  #over: NodeJS.Timeout | undefined

  constructor(options: LeaseOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  renew(): void {
    this.#until = this.#now() + EGRESS_LEASE.ms
    clearTimeout(this.#over)
    this.#over = setTimeout(() => this.#options.onOver(), EGRESS_LEASE.ms + EGRESS_LEASE.graceMs)
    this.#over.unref()
  }

  get isHeld(): boolean {
    return this.#now() < this.#until
  }

  get leftMs(): number {
    return Math.max(0, this.#until - this.#now())
  }

  get refusal(): Refusal | undefined {
    return this.isHeld ? undefined : CLOSED
  }

  end(): void {
    this.#until = Number.NEGATIVE_INFINITY
    clearTimeout(this.#over)
  }
}
