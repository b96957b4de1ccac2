import { AsyncLocalStorage } from 'node:async_hooks'
import type { RunEnvelope } from '../../contracts/events.ts'
import type { Log } from '../kit/log.ts'
import { present } from './codec.ts'
import { completeAll } from './complete-all.ts'
import type { Engine, WriteScope } from './engine.ts'
import type { EventListeners } from './event-listeners.ts'
import { transactionOver } from './sql-transaction.ts'
import { blobFiles } from './sqlite/blob-files.ts'
import type { Store } from './store.ts'
import { apiKeyStore } from './tables/api-keys.ts'
import { listApprovals, listExpiredApprovals } from './tables/approvals.ts'
import { auditReads } from './tables/audit.ts'
import { deleteBlobs, readBlob, writeBlob } from './tables/blobs.ts'
import { listReleasedCalls } from './tables/calls.ts'
import { deleteOldCheckpoints, readCheckpoint } from './tables/checkpoints.ts'
import { listClaims } from './tables/claims.ts'
import { blobChunks } from './tables/content-chunks.ts'
import { readContent, storedBytes, sweepContents, writeContent } from './tables/contents.ts'
import { credentialCheckStore, deleteOldChecks } from './tables/credential-checks.ts'
import { closeNetwork, countProxies, listNetworks, noteProxy, openNetwork } from './tables/egress.ts'
import { erasureStore } from './tables/erasure.ts'
import { readEvents, readEventsOf } from './tables/events.ts'
import { figureReads } from './tables/figures.ts'
import { deleteOldKeys, readIdempotencyKey, writeIdempotencyKey } from './tables/idempotency.ts'
import { acquireLease, releaseLease } from './tables/leases.ts'
import { listPushed } from './tables/pushed-branches.ts'
import { viewQueue } from './tables/queue.ts'
import { listOverdueInQueue } from './tables/queue-deadlines.ts'
import { replicaStore } from './tables/replicas.ts'
import { listRestrictions } from './tables/restrictions.ts'
import { countRuns, listAbandonedRuns, listRuns, readRun } from './tables/runs.ts'
import { readSetting, writeSetting } from './tables/settings.ts'
import {
  deleteTrustedFolder,
  listTrustedFolders,
  readTrustedFolder,
  writeTrustedFolder,
} from './tables/trusted-folders.ts'
import { userCredentialStore } from './tables/user-credentials.ts'

/** A row that every check of the store writes. */
const READINESS = { name: 'readiness', holder: 'every process', ttlMs: 0 }

/** The store over a migrated engine. */
export function createSqlStore(
  engine: Engine,
  listeners: EventListeners,
  { log, blobFolder }: { readonly log: Log; readonly blobFolder?: string },
): Store {
  const reading = { db: engine.reader, engine }
  const write = createWriter(engine, listeners)
  const blobs = blobFolder === undefined ? blobChunks(reading, write) : blobFiles(blobFolder)

  return {
    engine: engine.kind,
    transaction: (work) => write((scope) => work(transactionOver(scope))),

    readRun: (id) => readRun(reading, id),
    listRuns: async (filter) => {
      const { damaged, ...page } = await listRuns(reading, filter)
      for (const { id, error } of damaged) log.error('a run cannot be read', { runId: id, error })
      return page
    },
    countRuns: (filter) => countRuns(reading, filter),
    listAbandonedRuns: (states, limit) => listAbandonedRuns(reading, states, limit),
    listOverdueInQueue: (query) => listOverdueInQueue(reading, query),
    viewQueue: (query) => viewQueue(reading, query),
    readEvents: (runId, after, limit) => readEvents(reading, runId, { after, limit }),
    readEventsOf: (runId, type, limit) => readEventsOf(reading, runId, { type, limit }),
    onEvents: (runId, listener) => listeners.add(runId, listener),
    listApprovals: (runId, filter) => listApprovals(reading, runId, filter),
    listExpiredApprovals: (now) => listExpiredApprovals(reading, now),
    listClaims: (states) => listClaims(reading, states),
    listReleasedCalls: (runId, page) => listReleasedCalls(reading, runId, page),

    writeBlob: (blob, chunks) => writeBlob(write, blob, chunks),
    readBlob: (runId, name, again) => readBlob(reading, { runId, name, ...present({ again }) }),
    deleteBlobs: (runId) => write((scope) => deleteBlobs(scope, runId)),
    writeContent: (content, chunks) => writeContent({ write, blobs }, content, chunks),
    storedBytes: (owner) => storedBytes(reading, owner),
    readContent: (owner, sha256, given) => readContent(reading, blobs, { owner, sha256, ...given }),
    readCheckpoint: (runId) => readCheckpoint(reading, runId),
    sweep: ({ endedBefore, now, limit }) =>
      completeAll([
        () => write((scope) => deleteOldCheckpoints(scope, endedBefore, limit)),
        () => write(async (scope) => (await deleteOldKeys(scope, now)) + (await deleteOldChecks(scope))),
        () => sweepContents(reading, { write, blobs }, limit),
      ]),

    ...apiKeyStore(reading, write),
    ...{ ...userCredentialStore(reading, write), ...credentialCheckStore(reading, write) },

    readIdempotencyKey: (key, now) => readIdempotencyKey(reading, key, now),
    writeIdempotencyKey: (row) => write((scope) => writeIdempotencyKey(scope, row)),

    ...erasureStore(write),

    readSetting: (name) => readSetting(reading, name),
    writeSetting: (name, value) => write((scope) => writeSetting(scope, name, value)),

    listRestrictions: () => listRestrictions(reading),

    readTrustedFolder: (owner, path) => readTrustedFolder(reading, owner, path),
    writeTrustedFolder: (folder) => write((scope) => writeTrustedFolder(scope, folder)),
    deleteTrustedFolder: (owner, path) => write((scope) => deleteTrustedFolder(scope, owner, path)),
    listTrustedFolders: (filter) => listTrustedFolders(reading, filter),

    listNetworks: () => listNetworks(reading),
    countProxies: (ms) => countProxies(reading, ms),
    openNetwork: (network) => write((scope) => openNetwork(scope, network)),
    closeNetwork: (key) => write((scope) => closeNetwork(scope, key)),
    listPushed: (runId) => listPushed(reading, runId),
    noteProxy: (proxy, isConnected) => write((scope) => noteProxy(scope, proxy, isConnected)),

    ...{ ...auditReads(reading), ...figureReads(reading), ...replicaStore(reading, write) },
    acquireLease: (name, holder, ttlMs) =>
      write((scope) => acquireLease(scope, { name, holder, ttlMs }), engine.leases),
    releaseLease: (name, holder) => write((scope) => releaseLease(scope, name, holder), engine.leases),

    ping: () => write((scope) => acquireLease(scope, READINESS).then(() => undefined), engine.leases),
    close: () => engine.close(),
  }
}

/** One transaction per piece of work, whose listeners are called after the commit. */
function createWriter(engine: Engine, listeners: EventListeners) {
  const surrounding = new AsyncLocalStorage<{ isOpen: boolean }>()

  return async <T>(work: (scope: WriteScope) => Promise<T>, connection = engine.writer): Promise<T> => {
    // On SQLite it would wait for itself, on PostgreSQL it would commit apart from what surrounds it.
    if (surrounding.getStore()?.isOpen)
      throw new Error('a write to the store inside a transaction of the store')
    const announced = new Map<string, RunEnvelope[]>()
    const transaction = { isOpen: true }
    const commit = () =>
      connection.transaction().execute(async (db) => {
        const answer = await work({ db, engine, announced })
        await engine.announce(db, announced.keys())
        return answer
      })
    const result = await surrounding.run(transaction, commit).finally(() => {
      transaction.isOpen = false
    })
    for (const [runId, events] of announced) listeners.notify(runId, events)
    return result
  }
}
