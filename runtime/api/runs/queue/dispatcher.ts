import type { SandboxKind } from '../../../../contracts/names.ts'
import { messageOf } from '../../../kit/errors.ts'
import { type Lane, laneOf } from '../../../store/queue.ts'
import type { RunDeps } from '../deps.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import { CAPACITY_WAIT } from './no-room.ts'
import { pickNext } from './pick-next.ts'

const KINDS: readonly SandboxKind[] = ['agent', 'command']
const PAGE = 200

/**
 * Starts the runs of the queue in this process: as many as the limits allow, and no more at a time than it can launch. It
 * looks whenever something may have changed; the sweep of the queue covers changes by other processes and due times.
 */
export class Dispatcher {
  readonly #deps: RunDeps
  readonly #active: ActiveRuns
  readonly #lanes: readonly Lane[]
  /** When the cluster reported room, for each lane. A report counts until the longest pause of a waiting run is over. */
  readonly #rooms = new Map<Lane, number[]>()
  #launching = 0
  #isAsked = false
  #isClosed = false
  /** A pick may have been committed although this process got no answer. */
  #isUnsure = false
  #dispatching: Promise<void> | undefined

  constructor(deps: RunDeps, active: ActiveRuns) {
    this.#deps = deps
    this.#active = active
    this.#lanes = KINDS.map((kind) => laneOf({ kind, endsWithService: deps.isTemporary ?? false }))
  }

  /** A run may be able to start. */
  wake(): void {
    this.#isAsked = true
    if (this.#isClosed || this.#dispatching !== undefined) return
    this.#dispatching = this.#dispatch().finally(() => {
      this.#dispatching = undefined
      if (this.#isAsked) this.wake()
    })
  }

  /** The cluster has room for one more sandbox. */
  noteRoom(): void {
    const now = performance.now()
    for (const lane of this.#lanes) {
      const rooms = [...this.#roomsOf(lane), now]
      this.#rooms.set(lane, rooms.slice(-this.#deps.limits.maxRuns))
    }
    this.wake()
  }

  /** Starts no further run. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#dispatching
  }

  async #dispatch(): Promise<void> {
    this.#isAsked = false
    try {
      if (this.#isUnsure && !this.#deps.holder.isLost) await this.#driveUnanswered()
      while (!this.#isClosed && (await this.#startNext()));
    } catch (error) {
      this.#isUnsure = true
      this.#deps.log.warn('the next run of the queue could not be picked; trying again', {
        error: messageOf(error),
      })
    }
  }

  async #startNext(): Promise<boolean> {
    if (this.#deps.holder.isLost || this.#launching >= this.#deps.limits.maxLaunches) return false
    const open = this.#lanes.map((lane) => ({ lane, hasRoom: this.#roomsOf(lane).length > 0 }))
    const picked = await pickNext(this.#deps, open)
    if (!picked) return false
    this.#rooms.set(picked.lane, this.#roomsOf(picked.lane).slice(1))
    this.#launch(() => this.#active.launch(picked.run, picked.request))
    return true
  }

  #launch(launch: () => ReturnType<ActiveRuns['launch']>): void {
    this.#launching += 1
    const over = () => {
      this.#launching -= 1
      this.wake()
    }
    launch().obtained.then(over, over)
  }

  /** Drives the runs that were picked for this process without its knowledge. */
  async #driveUnanswered(): Promise<void> {
    const { store, holder } = this.#deps
    for (let after: string | undefined; ; ) {
      const page = await store.listRuns({ states: ['starting'], limit: PAGE, ...(after && { after }) })
      for (const run of page.items)
        if (run.holder === holder.id && !this.#active.get(run.id))
          this.#launch(() => this.#active.launch(run))
      if (page.next === undefined) break
      after = page.next
    }
    this.#isUnsure = false
  }

  #roomsOf(lane: Lane): readonly number[] {
    const since = performance.now() - CAPACITY_WAIT.longestPauseMs
    return (this.#rooms.get(lane) ?? []).filter((at) => at > since)
  }
}
