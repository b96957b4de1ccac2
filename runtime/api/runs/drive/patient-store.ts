import { delay } from '../../../kit/deadline.ts'
import type { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import type { Again } from '../../../store/blob-store.ts'
import { mapMethods } from '../../../store/reporting-faults.ts'
import type { Store } from '../../../store/store.ts'
import { isStoreFault } from '../../../store/store-fault.ts'
import type { RunDeps } from '../deps.ts'

export type Patience = {
  /** Ends the waiting; the work then rejects with the fault of the store. */
  readonly signal: AbortSignal
  readonly log: Log
  /** Called before each repetition. */
  readonly onRetry?: (() => void) | undefined
}

/** Counts the repetitions, if anything is measured. */
export const countRetries =
  ({ metrics }: Pick<RunDeps, 'metrics'>) =>
  () =>
    metrics?.retried('store')

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 1_000

/**
 * Repeats work on the store while the database cannot be used, for as long as that takes. A driver must not end its run
 * for a fault of the store: it could not store that end either.
 *
 * A connection can break after the database committed and before it answered, so the work may run twice. It must find
 * its own result then.
 */
export async function patiently<T>(work: () => Promise<T>, patience: Patience): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await attemptOf(work)
    if ('value' in outcome) return outcome.value
    await waitAfter(outcome.fault, attempt, patience)
  }
}

/** Rejects with every error that is no fault of the store. */
async function attemptOf<T>(work: () => Promise<T>): Promise<{ value: T } | { fault: SandboxError }> {
  try {
    return { value: await work() }
  } catch (error) {
    if (!isStoreFault(error)) throw error
    return { fault: error }
  }
}

async function waitAfter(
  fault: SandboxError,
  attempt: number,
  { signal, log, onRetry }: Patience,
): Promise<void> {
  onRetry?.()
  if (attempt === 1) log.warn('the store cannot be used; trying again', { error: fault.message })
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), LONGEST_WAIT_MS)
  await delay(waitMs, signal).catch(() => {
    throw fault
  })
}

/** Not repeated: a stream of chunks can be read only once, and leases have a separate deadline. */
const ONCE: ReadonlySet<keyof Store> = new Set([
  'writeBlob',
  'writeContent',
  'acquireLease',
  'releaseLease',
  'ping',
  'close',
])

/** The store for the driver of a run: its methods wait while the database cannot be used. */
export function patientStore(store: Store, patience: Patience): Store {
  const again: Again = (work) => patiently(work, patience)
  const patient = mapMethods(store, (method, name) =>
    ONCE.has(name) ? method : (...args) => again(() => method(...args)),
  )
  return {
    ...patient,
    // Their chunks are read later, and a stream that has failed cannot be continued.
    readBlob: (runId, name) => again(() => store.readBlob(runId, name, again)),
    readContent: (owner, sha256, given) => again(() => store.readContent(owner, sha256, { ...given, again })),
  }
}
