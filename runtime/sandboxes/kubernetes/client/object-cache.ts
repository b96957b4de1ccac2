import type { KubeObject } from './kube-object.ts'

/** Objects of one collection by name, with change listeners. */
export class ObjectCache<T extends KubeObject> {
  #objects = new Map<string, T>()
  readonly #listeners = new Map<string, Set<() => void>>()
  readonly #forAll = new Set<(before: T | undefined, after: T | undefined) => void>()

  get(name: string): T | undefined {
    return this.#objects.get(name)
  }

  list(): T[] {
    return [...this.#objects.values()]
  }

  put(object: T): void {
    const before = this.#objects.get(object.metadata.name)
    this.#objects.set(object.metadata.name, object)
    this.#tell(object.metadata.name)
    this.#tellAll(before, object)
  }

  /** Compares the UID, so that a late DELETED event does not remove a new object of the same name. */
  remove({ name, uid }: { readonly name: string; readonly uid: string }): void {
    const before = this.#objects.get(name)
    const isGone = before?.metadata.uid === uid && this.#objects.delete(name)
    this.#tell(name)
    if (isGone) this.#tellAll(before, undefined)
  }

  /** Replaces all objects after a list, and notifies listeners of everything that was added, changed or removed. */
  replaceAll(objects: readonly T[]): void {
    const before = this.#objects
    this.#objects = new Map(objects.map((object) => [object.metadata.name, object]))
    for (const name of [...this.#listeners.keys()]) this.#tell(name)
    for (const [name, object] of before) if (!this.#objects.has(name)) this.#tellAll(object, undefined)
    for (const [name, object] of this.#objects) this.#tellAll(before.get(name), object)
  }

  /** Calls back after every change with the old and the new object. The return value unsubscribes. */
  onEvery(listener: (before: T | undefined, after: T | undefined) => void): () => void {
    this.#forAll.add(listener)
    return () => void this.#forAll.delete(listener)
  }

  onChange(name: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name)
    }
  }

  #tell(name: string): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) listener()
  }

  #tellAll(before: T | undefined, after: T | undefined): void {
    for (const listener of [...this.#forAll]) listener(before, after)
  }
}
