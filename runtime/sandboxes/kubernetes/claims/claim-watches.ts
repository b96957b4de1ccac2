import type { Log } from '../../../kit/log.ts'
import type { KubeApi } from '../client/kube-api.ts'
import { claimsIn, sandboxesIn } from '../client/resource.ts'
import { SharedWatch, type WatchTiming } from '../client/shared-watch.ts'
import { ClaimObject, SandboxObject } from './claim-objects.ts'

/** The two watches that all claims of a namespace share. */
export type ClaimWatches = {
  readonly claims: SharedWatch<ClaimObject>
  readonly sandboxes: SharedWatch<SandboxObject>
  start(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

type Options = {
  readonly api: KubeApi
  readonly namespace: string
  readonly log: Log
  readonly timing?: WatchTiming
}

export function createClaimWatches({ namespace, ...shared }: Options): ClaimWatches {
  const claims = new SharedWatch({
    ...shared,
    resource: claimsIn(namespace),
    parse: (value) => ClaimObject.parse(value),
  })
  const sandboxes = new SharedWatch({
    ...shared,
    resource: sandboxesIn(namespace),
    parse: (value) => SandboxObject.parse(value),
  })
  return {
    claims,
    sandboxes,
    async start(signal) {
      await Promise.all([claims.start(signal), sandboxes.start(signal)])
    },
    async close() {
      await Promise.all([claims.close(), sandboxes.close()])
    },
  }
}
