import type { EgressState } from '../../../contracts/egress.ts'

/** Sent and received by all sandboxes of a run. */
export const BYTES_PER_RUN = 64 * 1024 ** 3
const MAX_RUNS = 10_000

/**
 * What each run has sent and received. The process of the proxy may end and forget it, so it reports its bytes every
 * second, and each state contains the rest.
 */
export class ByteBudgets {
  readonly #used = new Map<string, number>()

  add(runId: string, bytes: number): void {
    const used = (this.#used.get(runId) ?? 0) + bytes
    // The first run is the one that was used least recently.
    this.#used.delete(runId)
    this.#used.set(runId, used)
    if (this.#used.size > MAX_RUNS) this.#used.delete(this.#used.keys().next().value as string)
  }

  /** The state, with the bytes that each run may still send and receive. */
  applyTo(state: EgressState): EgressState {
    const generations = state.generations.map((one) => {
      const bytesLeft = Math.max(0, BYTES_PER_RUN - (this.#used.get(one.runId) ?? 0))
      return { ...one, bytesLeft }
    })
    return { ...state, generations }
  }
}
