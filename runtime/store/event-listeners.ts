import type { RunEnvelope } from '../../contracts/events.ts'
import { messageOf } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'

/**
 * Receives the events of a commit in the order of their numbers, or nothing if the listener must read the store itself.
 */
export type EventListener = (committed?: readonly RunEnvelope[]) => void

/** The listeners of this process, by run. */
export class EventListeners {
  readonly #byRun = new Map<string, Set<EventListener>>()
  readonly #log: Log

  constructor(log: Log) {
    this.#log = log
  }

  add(runId: string, listener: EventListener): () => void {
    // Each subscription is a separate entry, even if a function subscribes twice.
    const entry: EventListener = (committed) => listener(committed)
    const listeners = this.#byRun.get(runId) ?? new Set()
    this.#byRun.set(runId, listeners.add(entry))
    return () => {
      listeners.delete(entry)
      if (listeners.size === 0 && this.#byRun.get(runId) === listeners) this.#byRun.delete(runId)
    }
  }

  /** Calls the listeners of a run, or all listeners. A listener that throws does not affect the other listeners. */
  notify(runId?: string, committed?: readonly RunEnvelope[]): void {
    const groups = runId === undefined ? [...this.#byRun.values()] : [this.#byRun.get(runId) ?? []]
    for (const listener of groups.flatMap((group) => [...group])) {
      try {
        listener(committed)
      } catch (error) {
        this.#log.error('a listener for events failed', { runId, error: messageOf(error) })
      }
    }
  }
}
