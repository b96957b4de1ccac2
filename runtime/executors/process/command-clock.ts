import type { Freezing } from '../../../contracts/toolbox.ts'
import { isStopped, sendSignal } from './process-tree.ts'

/** How often a frozen command is searched for processes that are not stopped yet. */
const SEARCH_MS = 200
/** A process that forks while it is stopped leaves a child for the next pass. */
const MAX_PASSES = 64

export interface CommandClockOptions {
  readonly timeoutMs: number
  readonly onTimeout: () => void
  /** The processes of the command. */
  readonly processes: () => readonly number[]
  readonly freezing: Freezing | undefined
}

/** The time of one command. While commands are frozen, its processes are stopped and its time does not pass. */
export class CommandClock {
  readonly #options: CommandClockOptions
  readonly #unfollow: () => void
  /** Processes that were stopped here, and must continue. */
  readonly #stopped = new Set<number>()
  #leftMs: number
  #since = performance.now()
  #timer: NodeJS.Timeout | undefined
  #search: NodeJS.Timeout | undefined

  constructor(options: CommandClockOptions) {
    this.#options = options
    this.#leftMs = options.timeoutMs
    this.#unfollow = options.freezing?.onChange(() => this.#follow()) ?? (() => undefined)
    this.#start()
    if (options.freezing?.isFrozen) this.#follow()
  }

  /** The command has ended. */
  end(): void {
    this.#unfollow()
    clearTimeout(this.#timer)
    clearInterval(this.#search)
  }

  #start(): void {
    this.#since = performance.now()
    this.#timer = setTimeout(this.#options.onTimeout, this.#leftMs)
  }

  #follow(): void {
    clearInterval(this.#search)
    if (this.#options.freezing?.isFrozen) {
      clearTimeout(this.#timer)
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - this.#since))
      this.#stopAll()
      this.#search = setInterval(() => this.#stopAll(), SEARCH_MS)
      return
    }
    // Parents last: a parent must not see that its child is stopped.
    for (const pid of [...this.#stopped].reverse()) sendSignal(pid, 'SIGCONT')
    this.#stopped.clear()
    this.#start()
  }

  #stopAll(): void {
    for (let pass = 0; pass < MAX_PASSES; pass++) {
      const running = this.#options.processes().filter((pid) => !this.#stopped.has(pid) && !isStopped(pid))
      if (running.length === 0) return
      for (const pid of running) {
        sendSignal(pid, 'SIGSTOP')
        this.#stopped.add(pid)
      }
    }
  }
}
