import { setImmediate as nextTurn } from 'node:timers/promises'
import { FILE_LIMITS } from '../../../contracts/limits.ts'

/** Longest stretch of work between two turns of the event loop. */
const SLICE_MS = 8
/** Names that one search looks at. */
const MAX_NAMES = 500_000

/** What one search may spend. `spent` says that it must stop and answer what it has. */
export class SearchBudget {
  readonly #endsAt: number
  readonly #signal: AbortSignal | undefined
  #sliceEndsAt = performance.now() + SLICE_MS
  #names = 0
  /** Whether something was left out of the answer. */
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

  /** Lets other work go on where this search has held the event loop long enough. Throws once it is cancelled. */
  async yieldTurn(): Promise<void> {
    this.#signal?.throwIfAborted()
    if (performance.now() < this.#sliceEndsAt) return
    await nextTurn()
    this.#sliceEndsAt = performance.now() + SLICE_MS
  }
}
