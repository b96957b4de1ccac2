import { unlessAborted } from '../kit/deadline.ts'

/** Whether the commands of a runner are stopped. All of them are, or none. */
export class Freezer {
  readonly #listeners = new Set<() => void>()
  #isFrozen = false

  get isFrozen(): boolean {
    return this.#isFrozen
  }

  set(isFrozen: boolean): void {
    if (isFrozen === this.#isFrozen) return
    this.#isFrozen = isFrozen
    for (const listener of [...this.#listeners]) listener()
  }

  /** Calls back after each change. The return value ends that. */
  readonly onChange = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Resolves when commands may start. Rejects when the signal aborts. */
  async thawed(signal: AbortSignal): Promise<void> {
    while (this.#isFrozen) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const unfollow = this.onChange(resolve)
      await unlessAborted(promise, signal).finally(unfollow)
    }
  }
}
