import type { Log } from '../kit/log.ts'
import { present } from './codec.ts'
import type { Engine, OnRemoteEvents } from './engine.ts'
import { EventListeners } from './event-listeners.ts'
import { migrate } from './migrate.ts'
import { reportingFaults } from './reporting-faults.ts'
import { createSqlStore } from './sql-store.ts'
import type { Store } from './store.ts'
import { deleteAbandonedBlobs } from './tables/blobs.ts'

/** The location of a store: a file of the embedded engine, or a PostgreSQL database. */
export type StoreLocation =
  | { readonly kind: 'sqlite'; readonly file: string }
  | {
      readonly kind: 'postgres'
      readonly url: string
      /** Called for every new connection, instead of a password in the URL. */
      readonly password?: () => Promise<string>
    }

/** Opens the store and brings its tables up to date. */
export async function openStore(location: StoreLocation, { log }: { log: Log }): Promise<Store> {
  const listeners = new EventListeners(log)
  const engine = await openEngine(location, { log, onRemote: (runId) => listeners.notify(runId) })
  try {
    await migrate(engine)
    await engine.writer.transaction().execute((db) => deleteAbandonedBlobs({ db, engine }))
    const blobFolder = location.kind === 'sqlite' ? `${location.file}-blobs` : undefined
    return reportingFaults(createSqlStore(engine, listeners, { log, ...present({ blobFolder }) }))
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** Loads the library of the selected engine only, so the embedded store starts without `pg`. */
async function openEngine(
  location: StoreLocation,
  { log, onRemote }: { log: Log; onRemote: OnRemoteEvents },
): Promise<Engine> {
  if (location.kind === 'sqlite') {
    const { openSqlite } = await import('./sqlite/engine.ts')
    return openSqlite(location.file)
  }
  const { openPostgres } = await import('./postgres/engine.ts')
  return openPostgres(location, log, onRemote)
}
