import { randomUUID } from 'node:crypto'
import { delay } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import type { Store } from '../../../store/store.ts'

const LEASE = 'api'
/** One name for all processes that share a database: each of them renews what keeps out those that would not share. */
const SHARERS = 'processes that share it'

export type LeaseOptions = {
  /** A holder that was killed is gone after so long. */
  readonly ttlMs: number
  /** Several processes hold it together. @default false */
  readonly isShared?: boolean
  /** Another service holds the lease and serves the store. Unknown while the store cannot be reached. */
  readonly onLost: () => void
  readonly log: Log
}

/**
 * Locks a database for this process, or for the processes that share it. A process that does not share takes over all
 * runs in the database, so it would end those of other processes. The embedded store needs no lease, because its folder
 * is locked.
 */
export async function holdStore(
  store: Store,
  options: LeaseOptions,
): Promise<{ release: () => Promise<void> }> {
  const { ttlMs, onLost, log, isShared = false } = options
  const holder = isShared ? SHARERS : randomUUID()
  const stop = new AbortController()
  await acquire(store, { holder, ttlMs, log })
  const renewing = (async () => {
    for (;;) {
      await delay(ttlMs / 3, stop.signal)
      const isHeld = await store.acquireLease(LEASE, holder, ttlMs).catch((error: unknown) => {
        log.warn('the lease of the store could not be renewed', { error })
        return undefined
      })
      if (isHeld === false) return onLost()
    }
  })().catch(() => undefined)
  return {
    release: async () => {
      stop.abort()
      await renewing
      // Of several the others still hold it; the last one's ends by itself.
      if (!isShared) await store.releaseLease(LEASE, holder)
    },
  }
}

/** Waits as long as the lease of a killed holder may last. */
async function acquire(
  store: Store,
  { holder, ttlMs, log }: { holder: string; ttlMs: number; log: Log },
): Promise<void> {
  const giveUpAt = Date.now() + ttlMs + 1000
  for (let isWaiting = false; !(await store.acquireLease(LEASE, holder, ttlMs)); isWaiting = true) {
    if (!isWaiting)
      log.info('waiting for the database: another service uses it, or was killed a moment ago', { ttlMs })
    if (Date.now() > giveUpAt) {
      const message =
        'Another service uses this database. Stop it, or give this one a DATABASE_URL of its own.'
      throw new SandboxError('unavailable', message)
    }
    await delay(Math.min(ttlMs / 10, 500))
  }
}
