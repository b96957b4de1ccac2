import { withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { KubeApi } from '../client/kube-api.ts'
import { isStatus } from '../client/kube-error.ts'
import type { KubeObject } from '../client/kube-object.ts'
import { claimsIn } from '../client/resource.ts'
import { ClaimObject } from './claim-objects.ts'
import type { ClaimWatches } from './claim-watches.ts'

export type DeleteClaim = {
  readonly api: KubeApi
  readonly watches: ClaimWatches
  readonly timeoutMs: number
  /** How often to poll the API server, in case the watch misses the deletion. */
  readonly checkEveryMs: number
}

type Named = Pick<KubeObject['metadata'], 'namespace' | 'name' | 'uid'>

/**
 * Deletes exactly this claim and waits until it is gone. With foreground deletion the claim remains until its Sandbox, pod
 * and volumes are gone, so its DELETED event proves that all are gone. Returns false if the claim did not exist, which can
 * happen because a watch may lag.
 */
export async function deleteClaim(
  options: DeleteClaim,
  claim: Named,
  signal?: AbortSignal,
): Promise<boolean> {
  const bounded = withTimeout(options.timeoutMs, signal)
  try {
    const wasThere = await askForDeletion(options.api, claim, bounded)
    if (wasThere) await untilGone(options, claim, bounded)
    return wasThere
  } catch (error) {
    throw bounded.aborted && !signal?.aborted ? notGone(claim, options.timeoutMs, error) : error
  }
}

/** Returns false if the claim is gone: 404, or 409 because a new claim has its name. */
async function askForDeletion(api: KubeApi, { namespace, name, uid }: Named, signal: AbortSignal) {
  try {
    await api.delete({ resource: claimsIn(namespace), name }, { uid, propagation: 'Foreground' }, signal)
    return true
  } catch (error) {
    if (isStatus(error, 404) || isStatus(error, 409)) return false
    throw error
  }
}

async function untilGone(options: DeleteClaim, claim: Named, signal: AbortSignal): Promise<void> {
  const { watches, checkEveryMs } = options
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  // The watch may lag: the claim must be seen first, and then its disappearance.
  let wasThere = watches.claims.get(claim.name)?.metadata.uid === claim.uid
  const leave = watches.claims.onChange(claim.name, () => {
    const isThere = watches.claims.get(claim.name)?.metadata.uid === claim.uid
    if (wasThere && !isThere) resolve()
    wasThere ||= isThere
  })
  const check = async () => {
    if (await isGone(options.api, claim, signal)) resolve()
  }
  if (!wasThere) check().catch(reject)
  const checks = setInterval(() => void check().catch(reject), checkEveryMs)
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    if (signal.aborted) onAbort()
    await promise
  } finally {
    leave()
    clearInterval(checks)
    signal.removeEventListener('abort', onAbort)
  }
}

async function isGone(api: KubeApi, { namespace, name, uid }: Named, signal: AbortSignal): Promise<boolean> {
  const current = await api.get(claimsIn(namespace), name, signal)
  return current === undefined || ClaimObject.parse(current).metadata.uid !== uid
}

const notGone = ({ name }: Named, timeoutMs: number, cause: unknown) =>
  new SandboxError(
    'deadline_exceeded',
    `the claim ${name} or one of its dependents still exists ${timeoutMs / 1000} s after the delete request`,
    { cause },
  )
