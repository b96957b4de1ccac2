import { setImmediate as nextTurn } from 'node:timers/promises'
import { FILE_LIMITS } from '../../../contracts/limits.ts'

/** Longest time between two turns of the event loop. */
const SLICE_MS = 8
/** Maximum number of names per search. */
const MAX_NAMES = 500_000

/** The limits of one search. When `spent` is true, the search must stop and return its results so far. */
export class SearchBudget {
  readonly #endsAt: number
  readonly #signal: AbortSignal | undefined
  #sliceEndsAt = performance.now() + SLICE_MS
  #names = 0
  /** Whether results were omitted. */
  truncated = false

  constructor(signal: AbortSignal | undefined, timeoutMs: number = FILE_LIMITS.searchTimeoutMs) {
    this.#endsAt = performance.now() + timeoutMs
    this.#signal = signal
  }

  countName(): void {
    this.#names++
  }

  get spent(): boolean {
    if (this.#names <= MAX_NAMES && performance.now() < this.#endsAt) return false
    this.truncated = true
    return true
  }

  /** Yields to the event loop if the search has blocked it too long. Throws if the search was cancelled. */
  async yieldTurn(): Promise<void> {
    this.#signal?.throwIfAborted()
    if (performance.now() < this.#sliceEndsAt) return
    await nextTurn()
    this.#sliceEndsAt = performance.now() + SLICE_MS
  }
}
