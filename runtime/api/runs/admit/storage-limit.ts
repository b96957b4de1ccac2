import { SandboxError } from '../../../kit/errors.ts'
import type { Store } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'

type Deps = Pick<RunDeps, 'store' | 'limits'>

/** Throws if the owner has nothing left to store, so that a run does not fail only when its work is to be saved. */
export async function refuseFullStorage(deps: Deps, owner: string): Promise<void> {
  const left = await bytesLeft(deps, owner)
  if (left <= 0) throw full(deps, left, 'a new run could not be saved')
}

/** Writes at most `maxBytes`, and no more than the owner may store. */
export async function writeWithin<T>(
  deps: Deps,
  { owner, maxBytes, what }: { readonly owner: string; readonly maxBytes: number; readonly what: string },
  write: (maxBytes: number) => Promise<T>,
): Promise<T> {
  const left = await bytesLeft(deps, owner)
  if (left <= 0) throw full(deps, left, `${what} cannot be stored`)
  try {
    return await write(Math.min(maxBytes, left))
  } catch (error) {
    if (left < maxBytes && isTooLarge(error)) throw full(deps, left, `${what} is too large`)
    throw error
  }
}

/**
 * A store for one checkpoint of an owner. All its contents together are limited to what the owner may store. Checkpoints that
 * are saved at the same time do not see each other, so the sum can exceed the limit by one checkpoint of each run.
 */
export async function storeWithin(deps: Deps, owner: string): Promise<Store> {
  const { store } = deps
  let left = await bytesLeft(deps, owner)
  const refuse = () => full(deps, left, 'the checkpoint is too large')
  return {
    ...store,
    async writeContent({ maxBytes, ...content }, chunks) {
      if (left <= 0) throw refuse()
      try {
        const written = await store.writeContent({ ...content, maxBytes: Math.min(maxBytes, left) }, chunks)
        if (written.isNew) left -= written.bytes
        return written
      } catch (error) {
        throw left < maxBytes && isTooLarge(error) ? refuse() : error
      }
    },
  }
}

const bytesLeft = async ({ store, limits }: Deps, owner: string): Promise<number> =>
  limits.maxStoredBytesPerOwner - (await store.storedBytes(owner))

const isTooLarge = (error: unknown) => error instanceof SandboxError && error.code === 'payload_too_large'

function full({ limits }: Deps, left: number, why: string): SandboxError {
  const { maxStoredBytesPerOwner: limit, suspendedRetentionMs } = limits
  const days = Math.round(suspendedRetentionMs / 86_400_000)
  return new SandboxError(
    'storage_full',
    `${why}: your runs store ${limit - left} bytes, and the limit is ${limit}. What a run stores is deleted ${days} days ` +
      'after its end. Ask an operator for more room (AGENTWEAVER_MAX_STORED_BYTES_PER_OWNER).',
  )
}
