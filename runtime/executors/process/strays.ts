import { setImmediate as nextTurn } from 'node:timers/promises'
import { childrenOf, descendantsOf, hasMark, isDead, isProcess, sendSignal } from './process-tree.ts'

/** A stray may fork while it is looked for; one that outruns this many looks is ended with the pod. */
const MAX_LOOKS = 200

/** While commands run, how often the numbers of their dead orphans are given back. */
const REAP_EVERY_MS = 500

export interface StrayOptions {
  /** Children of this process that are not commands. */
  readonly ownChildren: () => readonly number[]
  /** Takes note of the end of a child that Node did not start. */
  readonly reap: (pid: number) => void
}

/**
 * Keeps account of commands that no namespace holds, for a process that adopts the orphans of its descendants. A
 * child of it that it did not start was left behind; where that carries no mark of a running command, nobody needs it.
 */
export class Strays {
  readonly #options: StrayOptions
  readonly #running = new Map<string, number | undefined>()
  /** Launchers whose command is over and whose end Node may not have taken note of yet. */
  readonly #leaving = new Set<number>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: StrayOptions) {
    this.#options = options
  }

  /** A command is about to run whose processes carry `mark` (`NAME=value`). */
  begin(mark: string): void {
    this.#running.set(mark, undefined)
    this.#timer ??= setInterval(() => this.#reapDead(), REAP_EVERY_MS).unref()
  }

  started(mark: string, pid: number): void {
    this.#running.set(mark, pid)
  }

  /** The command is over: ends what it left behind. Answers whether nothing is left. Again is no harm. */
  async end(mark: string): Promise<boolean> {
    const launcher = this.#running.get(mark)
    if (launcher !== undefined) this.#leaving.add(launcher)
    this.#running.delete(mark)
    try {
      return await this.#endStrays()
    } finally {
      if (this.#running.size === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  async #endStrays(): Promise<boolean> {
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const strays = this.#orphans().filter((pid) => !this.#isNeeded(pid))
      if (strays.length === 0) return true
      for (const stray of strays) {
        for (const pid of [stray, ...descendantsOf(stray)]) sendSignal(pid, 'SIGKILL')
        this.#options.reap(stray)
      }
      await nextTurn()
    }
    return false
  }

  #reapDead(): void {
    for (const pid of this.#orphans()) if (isDead(pid)) this.#options.reap(pid)
  }

  /** Children that this process did not start. Those that it did are Node's to wait for. */
  #orphans(): number[] {
    const children = childrenOf(process.pid)
    for (const pid of this.#leaving) if (!children.includes(pid)) this.#leaving.delete(pid)
    const known = new Set([...this.#options.ownChildren(), ...this.#running.values(), ...this.#leaving])
    return children.filter((pid) => !known.has(pid) && isProcess(pid))
  }

  #isNeeded(pid: number): boolean {
    return [...this.#running.keys()].some((mark) => hasMark(pid, mark))
  }
}
