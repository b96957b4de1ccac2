import { afterAll, beforeAll } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore, type StoreLocation } from '../../runtime/store/open-store.ts'
import type { Store } from '../../runtime/store/store.ts'

/** An engine that the suite runs on. */
export interface StoreUnderTest {
  readonly engine: Store['engine']
  /** Creates a location for an empty store. */
  freshLocation(): Promise<StoreLocation>
  /** Rows of a table, counted past the store. */
  count(location: StoreLocation, table: string): Promise<number>
  /** Changes rows past the store. */
  execute(location: StoreLocation, sql: string): Promise<void>
}

export const openAt = (location: StoreLocation) => openStore(location, { log: silentLog })

/** One store for the tests of a block, closed after them. */
export function useStore({ freshLocation }: StoreUnderTest): () => Store {
  let store: Store | undefined
  beforeAll(async () => {
    store = await openAt(await freshLocation())
  })
  afterAll(() => store?.close())
  return () => {
    if (!store) throw new Error('the store is not open yet')
    return store
  }
}
