import type { Store } from './store.ts'
import { toStoreFault } from './store-fault.ts'

/** The store, whose methods reject with `unavailable` while the database cannot be used. */
export function reportingFaults(store: Store): Store {
  return mapMethods(
    store,
    (method) =>
      (...args) =>
        reportingFault(() => method(...args)),
  )
}

/** Rejects with `unavailable` if the work fails because the database cannot be used. */
export async function reportingFault<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toStoreFault(error)
  }
}

type Method = (...args: unknown[]) => Promise<unknown>

/** The asynchronous methods of a store, each replaced. */
export function mapMethods(store: Store, replace: (method: Method, name: keyof Store) => Method): Store {
  const { engine, onEvents } = store
  const replaced = Object.entries(store).map(([name, method]) => [name, replace(method, name as keyof Store)])
  return { ...Object.fromEntries(replaced), engine, onEvents }
}
