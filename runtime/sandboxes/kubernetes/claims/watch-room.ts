import { conditionOf, controllerOf } from '../client/kube-object.ts'
import type { SandboxObject } from './claim-objects.ts'
import type { ClaimWatches } from './claim-watches.ts'

/** Kind of the owner of an unclaimed Sandbox. */
const POOL_KIND = 'SandboxWarmPool'

/**
 * Calls back when a claim that had a pod is gone, and when a Sandbox of a pool becomes ready. Both are needed: under a full
 * quota, the pool uses the freed capacity to create its next Sandbox.
 */
export function watchForRoom({ claims, sandboxes }: ClaimWatches, listener: () => void): () => void {
  const leave = [
    claims.onEvery((before, after) => {
      // A claim without a pod frees no capacity; its end must not trigger another failing attempt.
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
  sandbox !== undefined && poolOf(sandbox) !== undefined && isReady(sandbox)

/** The pool that an unclaimed Sandbox waits in. */
export function poolOf(sandbox: SandboxObject): string | undefined {
  const controller = controllerOf(sandbox)
  return controller?.kind === POOL_KIND ? controller.name : undefined
}

export const isReady = ({ status }: SandboxObject): boolean =>
  conditionOf(status?.conditions, 'Ready')?.status === 'True'
