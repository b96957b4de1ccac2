import { conditionOf, controllerOf } from '../client/kube-object.ts'
import type { SandboxObject } from './claim-objects.ts'
import type { ClaimWatches } from './claim-watches.ts'

/** Who controls a Sandbox that no claim has. */
const POOL_KIND = 'SandboxWarmPool'

/**
 * Calls back for each claim of a pod that is gone with all it had, and for each sandbox that has become ready in a pool: where a
 * quota is full, what the one leaves the pool takes for the other.
 */
export function watchForRoom({ claims, sandboxes }: ClaimWatches, listener: () => void): () => void {
  const leave = [
    claims.onEvery((before, after) => {
      // A claim that never had a pod leaves nothing, and its end must not call the next vain attempt.
      if (after === undefined && before?.status?.sandbox?.podIPs?.length) listener()
    }),
    sandboxes.onEvery((before, after) => {
      if (isSpare(after) && !isSpare(before)) listener()
    }),
  ]
  return () => {
    for (const unsubscribe of leave) unsubscribe()
  }
}

const isSpare = (sandbox: SandboxObject | undefined): boolean =>
  sandbox !== undefined &&
  controllerOf(sandbox)?.kind === POOL_KIND &&
  conditionOf(sandbox.status?.conditions, 'Ready')?.status === 'True'
