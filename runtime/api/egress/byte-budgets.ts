import type { EgressBudget, EgressState } from '../../../contracts/egress.ts'
import { passesThreshold } from '../../kit/thresholds.ts'

/** Sent and received by all sandboxes of a run. */
export const BYTES_PER_RUN = 64 * 1024 ** 3
/** The event about the bytes of a run, if this use is reported. */
export const bytesBudget = (
  before: number,
  used: number,
  limit: number = BYTES_PER_RUN,
): EgressBudget | undefined =>
  passesThreshold(before, used, limit) ? { kind: 'bytes', used, limit } : undefined

const MAX_RUNS = 10_000

/**
 * What each run has sent and received. The process of the proxy may end and forget it, so it reports its bytes every
 * second, and each state contains the rest.
 */
export class ByteBudgets {
  readonly #used = new Map<string, number>()

  /** Returns the report for the run, if there is one. */
  add(runId: string, bytes: number): EgressBudget | undefined {
    const before = this.#used.get(runId) ?? 0
    const used = before + bytes
    // The first run is the one that was used least recently.
    this.#used.delete(runId)
    this.#used.set(runId, used)
    if (this.#used.size > MAX_RUNS) this.#used.delete(this.#used.keys().next().value as string)
    return bytesBudget(before, used)
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
