import type { KubeObject } from './kube-object.ts'

/** Objects of one collection by name, and who wants to know of their changes. */
export class ObjectCache<T extends KubeObject> {
  #objects = new Map<string, T>()
  readonly #listeners = new Map<string, Set<() => void>>()
  readonly #onGone = new Set<() => void>()

  get(name: string): T | undefined {
    return this.#objects.get(name)
  }

  list(): T[] {
    return [...this.#objects.values()]
  }

  put(object: T): void {
    this.#objects.set(object.metadata.name, object)
    this.#tell(object.metadata.name)
  }

  /** A late end of an object must not take away its successor of the same name. */
  remove({ name, uid }: { readonly name: string; readonly uid: string }): void {
    const isGone = this.#objects.get(name)?.metadata.uid === uid && this.#objects.delete(name)
    this.#tell(name)
    if (isGone) for (const listener of [...this.#onGone]) listener()
  }

  /** After a list: everybody is told, of what came, what changed, and what went while nobody watched. */
  replaceAll(objects: readonly T[]): void {
    const before = [...this.#objects.values()]
    this.#objects = new Map(objects.map((object) => [object.metadata.name, object]))
    for (const name of [...this.#listeners.keys()]) this.#tell(name)
    const gone = before.filter(
      ({ metadata }) => this.#objects.get(metadata.name)?.metadata.uid !== metadata.uid,
    )
    for (const _one of gone) for (const listener of [...this.#onGone]) listener()
  }

  onChange(name: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name)
    }
  }

  /** Calls back for each object that is gone, after it is. The return value unsubscribes. */
  onGone(listener: () => void): () => void {
    this.#onGone.add(listener)
    return () => void this.#onGone.delete(listener)
  }

  #tell(name: string): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) listener()
  }
}
