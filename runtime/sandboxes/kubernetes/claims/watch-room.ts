import { conditionOf, controllerOf } from '../client/kube-object.ts'
import type { SandboxObject } from './claim-objects.ts'
import type { ClaimWatches } from './claim-watches.ts'

/** Who controls a Sandbox that no claim has. */
const POOL_KIND = 'SandboxWarmPool'

/**
 * Calls back for each claim that is gone with all it had, and for each sandbox that has become ready in a pool: where a
 * quota is full, what the one leaves the pool takes for the other.
 */
export function watchForRoom({ claims, sandboxes }: ClaimWatches, listener: () => void): () => void {
  const leave = [
    claims.onEvery((_before, after) => {
      if (after === undefined) listener()
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
