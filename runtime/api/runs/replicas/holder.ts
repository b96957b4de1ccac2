import { randomUUID } from 'node:crypto'
import { delay } from '../../../kit/deadline.ts'
import { messageOf } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { HOLDER_LEASE } from '../../../store/holder-lease.ts'
import type { Store } from '../../../store/store.ts'

export type HolderOptions = {
  /** A process that was killed is known to be gone after so long. */
  readonly ttlMs: number
  /** Others may take over the runs of this process from here on. */
  readonly onLost: () => void
  readonly log: Log
}

/**
 * The name under which this process drives runs. The name has a lease; other processes take over runs whose holder has
 * none. A name whose lease may have expired is never used again, so that work under it can be recognized.
 */
export class Holder {
  #id = randomUUID()
  #isLost = false
  readonly #stop = new AbortController()
  #keeping: Promise<void> = Promise.resolve()

  get id(): string {
    return this.#id
  }

  /** The name has no lease. If this process begins to drive a run under it, other processes take it over at once. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** Takes the lease and keeps it until `release`. */
  async hold(store: Store, options: HolderOptions): Promise<void> {
    const since = performance.now()
    await store.acquireLease(this.#lease, this.#id, options.ttlMs)
    this.#keeping = this.#keep(store, options, since).catch(() => undefined)
  }

  /** Other processes can take over all runs of this process at once. */
  async release(store: Store): Promise<void> {
    this.#stop.abort()
    await this.#keeping
    await store.releaseLease(this.#lease, this.#id)
  }

  get #lease(): string {
    return `${HOLDER_LEASE}${this.#id}`
  }

  async #keep(store: Store, { ttlMs, onLost, log }: HolderOptions, since: number): Promise<void> {
    for (let heldSince = since; ; ) {
      await delay(ttlMs / 4, this.#stop.signal)
      const now = performance.now()
      // A process that stood still finds its lease gone, though it could still be taken again.
      if (now - heldSince >= ttlMs) {
        if (!this.#isLost) {
          log.error('this process could not keep its lease; its runs are left to others')
          this.#isLost = true
          onLost()
        }
        // A lease that was granted without an answer may have expired, so each attempt has its own name.
        this.#id = randomUUID()
      }
      const isHeld = await store.acquireLease(this.#lease, this.#id, ttlMs).catch((error: unknown) => {
        log.warn('the lease of this process could not be renewed', { error: messageOf(error) })
        return false
      })
      if (!isHeld) continue
      heldSince = now
      this.#isLost = false
    }
  }
}
