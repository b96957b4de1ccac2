import { randomUUID } from 'node:crypto'

/** Any object, as the wire carries it. */
export type Stored = {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: Readonly<Record<string, unknown>> & {
    readonly name: string
    readonly uid: string
    readonly resourceVersion: string
  }
  readonly [field: string]: unknown
}

export type Draft = {
  readonly metadata: Readonly<Record<string, unknown>> & { readonly name: string }
  readonly [field: string]: unknown
}

export type Change = {
  readonly collection: string
  readonly version: number
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: Stored
}

/** Objects by collection, with one version counter and the history of every change, as etcd has them. */
export function createObjectStore() {
  const objects = new Map<string, Map<string, Stored>>()
  const listeners = new Set<(change: Change) => void>()
  let history: Change[] = []
  let version = 100
  let oldest = 100

  const collectionOf = (collection: string) => {
    const found = objects.get(collection) ?? new Map<string, Stored>()
    objects.set(collection, found)
    return found
  }

  function note(collection: string, type: Change['type'], draft: Draft): Stored {
    version += 1
    const previous = collectionOf(collection).get(draft.metadata.name)
    const object: Stored = {
      ...draft,
      metadata: {
        creationTimestamp: previous?.metadata['creationTimestamp'] ?? new Date().toISOString(),
        uid: previous?.metadata.uid ?? randomUUID(),
        ...draft.metadata,
        resourceVersion: String(version),
      },
    }
    if (type === 'DELETED') collectionOf(collection).delete(object.metadata.name)
    else collectionOf(collection).set(object.metadata.name, object)
    const change: Change = { collection, version, type, object }
    history.push(change)
    for (const listener of [...listeners]) listener(change)
    return object
  }

  return {
    get version(): number {
      return version
    },
    get oldest(): number {
      return oldest
    },
    get: (collection: string, name: string): Stored | undefined => collectionOf(collection).get(name),
    list: (collection: string): Stored[] =>
      [...collectionOf(collection).values()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)),
    /** Creates or replaces. */
    put(collection: string, draft: Draft): Stored {
      const known = collectionOf(collection).has(draft.metadata.name)
      return note(collection, known ? 'MODIFIED' : 'ADDED', draft)
    },
    remove(collection: string, name: string): void {
      const known = collectionOf(collection).get(name)
      if (known) note(collection, 'DELETED', known)
    },
    since: (collection: string, from: number): Change[] =>
      history.filter((change) => change.collection === collection && change.version > from),
    /** Deletes the history: a watch from an earlier version receives 410. */
    compact(): void {
      history = []
      version += 1
      oldest = version
    },
    onChange(listener: (change: Change) => void): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

export type ObjectStore = ReturnType<typeof createObjectStore>

/** RFC 7386: members are replaced, `null` removes one. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const base = typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {}
  const result = base as Record<string, unknown>
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else result[key] = mergePatch(result[key], value)
  }
  return result
}
