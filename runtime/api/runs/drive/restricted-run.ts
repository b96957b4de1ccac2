import { delay, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import type { RestrictionRow } from '../../../store/service-rows.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import { changesSince, type Effect } from '../restrictions/restrictions.ts'
import type { Serving } from './departure.ts'

const FREEZE_TIMEOUT_MS = 5_000
const TRY_AGAIN_MS = 500
/** How long AgentHost keeps a call of a frozen run. Each message to it begins this time again. */
const HOLD_MS = 7 * 24 * 3_600_000

type Parts = {
  readonly deps: Pick<RunDeps, 'store' | 'clock' | 'restrictions'>
  readonly run: RunRow
  /** Ends with the driver's work on the run. */
  readonly signal: AbortSignal
  readonly log: Log
  /** Called when the run may go on. */
  readonly onThawed: () => void
}

/** Follows the restrictions of one run: reports them in its events, and stops and continues the commands in its sandbox. */
export class RestrictedRun {
  readonly #parts: Parts
  readonly #unfollow: () => void
  #serving: Serving | undefined
  /** Whether the commands of the sandbox are stopped. Undefined if an earlier driver may have stopped them. */
  #isStopped: boolean | undefined
  /** Whether calls or turns may wait for the end of `frozen`. */
  #mayWait = true
  #told: readonly RestrictionRow[] = []
  #work: Promise<void> = Promise.resolve()

  constructor(parts: Parts) {
    this.#parts = parts
    this.#unfollow = parts.deps.restrictions.onChange(() => this.#follow())
  }

  get isFrozen(): boolean {
    const { deps, run } = this.#parts
    return deps.restrictions.of(run).isFrozen
  }

  /** Until when the sandbox shall hold calls that are decided. Undefined if they may act. */
  readonly heldUntil = (): string | undefined =>
    this.isFrozen ? new Date(this.#parts.deps.clock().getTime() + HOLD_MS).toISOString() : undefined

  /** The sandbox serves. `isNew`: no other driver had it. */
  serve(serving: Serving, isNew: boolean): void {
    this.#serving = serving
    if (isNew) {
      this.#isStopped = false
      this.#mayWait = false
    }
    this.#follow()
  }

  stop(): void {
    this.#unfollow()
  }

  #follow(): void {
    const { deps, run, log, signal } = this.#parts
    // Read now, so that a change that is lifted at once is reported too.
    const effect = deps.restrictions.of(run)
    if (effect.isFrozen) this.#mayWait = true
    this.#work = this.#work
      .then(() => this.#apply(effect))
      .catch((error: unknown) => {
        if (!signal.aborted) log.warn('a restriction could not be applied to the run', { error })
      })
  }

  async #apply(effect: Effect): Promise<void> {
    const serving = this.#serving
    if (!serving || this.#parts.signal.aborted) return
    await this.#freeze(serving)
    await this.#tell(effect)
    if (this.isFrozen || !this.#mayWait) return
    this.#mayWait = false
    await serving.relay.post([])
    this.#parts.onThawed()
  }

  /** Stops or continues the commands, until that has succeeded. */
  async #freeze({ client }: Serving): Promise<void> {
    const { signal, log } = this.#parts
    while (this.#isStopped !== this.isFrozen) {
      const { isFrozen } = this
      try {
        await client.freeze(isFrozen, withTimeout(FREEZE_TIMEOUT_MS, signal))
        this.#isStopped = isFrozen
      } catch (error) {
        // An AgentHost of an earlier release has no such route.
        if (signal.aborted || (error instanceof SandboxError && error.code === 'not_found')) throw error
        log.warn('the commands of the run were not stopped or continued yet', { isFrozen, error })
        await delay(TRY_AGAIN_MS, signal)
      }
    }
  }

  async #tell(effect: Effect): Promise<void> {
    const { deps, run } = this.#parts
    const changes = changesSince(this.#told, effect)
    if (changes.length > 0)
      await whileHeld(deps.store, run, (tx) =>
        tx.appendEvents(
          run.id,
          changes.map((data) => ({ event: { type: 'run.restricted', data } })),
        ),
      )
    this.#told = effect.applied
  }
}
