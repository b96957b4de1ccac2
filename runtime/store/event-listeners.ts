import { messageOf } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'

type Listener = () => void

/** Who in this process waits for the events of which run. */
export class EventListeners {
  readonly #byRun = new Map<string, Set<Listener>>()
  readonly #log: Log

  constructor(log: Log) {
    this.#log = log
  }

  add(runId: string, listener: Listener): () => void {
    // Each subscription is its own entry, also where a function is given twice.
    const entry = () => listener()
    const listeners = this.#byRun.get(runId) ?? new Set()
    this.#byRun.set(runId, listeners.add(entry))
    return () => {
      listeners.delete(entry)
      if (listeners.size === 0 && this.#byRun.get(runId) === listeners) this.#byRun.delete(runId)
    }
  }

  /** Calls the listeners of a run, or all of them. A listener that throws harms nobody else. */
  notify(runId?: string): void {
    const groups = runId === undefined ? [...this.#byRun.values()] : [this.#byRun.get(runId) ?? []]
    for (const listener of groups.flatMap((group) => [...group])) {
      try {
        listener()
      } catch (error) {
        this.#log.error('a listener for events failed', { runId, error: messageOf(error) })
      }
    }
  }
}
