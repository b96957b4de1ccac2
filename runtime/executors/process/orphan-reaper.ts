import { setImmediate as nextTurn } from 'node:timers/promises'
import { childrenOf, descendantsOf, hasMark, isDead, isProcess, sendSignal } from './process-tree.ts'

/**
 * An orphan may fork while it is being killed. If this many rounds are not enough, the process ends with the
 * pod.
 */
const MAX_LOOKS = 200

/** How often dead orphans are reaped while commands run, in milliseconds. */
const REAP_EVERY_MS = 500

export interface OrphanReaperOptions {
  /** Children of this process that are not commands. */
  readonly ownChildren: () => readonly number[]
  /** Waits for a child that Node did not start (`waitpid`). */
  readonly reap: (pid: number) => void
}

/**
 * Kills processes that commands leave behind, in a process that is a child subreaper and has no PID namespace
 * per command. Every child that this process did not start is an orphan. An orphan without the mark of a
 * running command is killed.
 */
export class OrphanReaper {
  readonly #options: OrphanReaperOptions
  readonly #running = new Map<string, number | undefined>()
  /** Launchers of commands that have ended. Node may not have reaped them yet. */
  readonly #leaving = new Set<number>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: OrphanReaperOptions) {
    this.#options = options
  }

  /** Registers a command whose processes carry `mark` (`NAME=value`), before it starts. */
  begin(mark: string): void {
    this.#running.set(mark, undefined)
    this.#timer ??= setInterval(() => this.#reapDead(), REAP_EVERY_MS).unref()
  }

  started(mark: string, pid: number): void {
    this.#running.set(mark, pid)
  }

  /**
   * Unregisters a command and kills the processes that it left behind. Returns whether all of them are gone.
   * Can be called again.
   */
  async end(mark: string): Promise<boolean> {
    const launcher = this.#running.get(mark)
    if (launcher !== undefined) this.#leaving.add(launcher)
    this.#running.delete(mark)
    try {
      return await this.#killOrphans()
    } finally {
      if (this.#running.size === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  async #killOrphans(): Promise<boolean> {
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const orphans = this.#orphans().filter((pid) => !this.#isNeeded(pid))
      if (orphans.length === 0) return true
      for (const orphan of orphans) {
        for (const pid of [orphan, ...descendantsOf(orphan)]) sendSignal(pid, 'SIGKILL')
        this.#options.reap(orphan)
      }
      await nextTurn()
    }
    return false
  }

  #reapDead(): void {
    for (const pid of this.#orphans()) if (isDead(pid)) this.#options.reap(pid)
  }

  /** Children that this process did not start. Node reaps the others. */
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
