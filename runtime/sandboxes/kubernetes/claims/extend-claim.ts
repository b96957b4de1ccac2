import { messageOf } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import type { KubeApi } from '../client/kube-api.ts'
import { claimsIn } from '../client/resource.ts'
import { toKubeTime } from './build-claim.ts'

export type Lifetime = {
  /** A claim whose service has died expires after this time. */
  readonly lifetimeMs: number
  /** How often the shutdown time of a claim in use is moved forward by a whole lifetime. */
  readonly extendEveryMs: number
}

export const CLAIM_LIFETIME: Lifetime = { lifetimeMs: 1_800_000, extendEveryMs: 600_000 }

type Extension = Lifetime & {
  readonly api: KubeApi
  readonly clock: () => Date
  readonly log: Log
  /** Extends at once, because the time of the last extension is unknown. */
  readonly isTakenOver?: boolean
}

type Claim = { readonly namespace: string; readonly name: string; readonly uid: string }

/** Moves a claim's shutdown time forward while it is in use. A failed extension is retried at the next interval. */
export function keepClaimAlive(extension: Extension, claim: Claim): { stop(): void } {
  const { api, clock, lifetimeMs, extendEveryMs, log } = extension
  const stopped = new AbortController()
  const extend = async () => {
    const shutdownTime = toKubeTime(new Date(clock().getTime() + lifetimeMs))
    // With the UID, a new claim of the same name is not patched.
    const body = { metadata: { uid: claim.uid }, spec: { lifecycle: { shutdownTime } } }
    const signal = AbortSignal.any([stopped.signal, AbortSignal.timeout(extendEveryMs)])
    await api.patch({ resource: claimsIn(claim.namespace), name: claim.name }, body, signal)
  }
  const tryToExtend = () =>
    void extend().catch((error: unknown) => {
      if (stopped.signal.aborted) return
      log.warn('a claim could not be extended', { claim: claim.name, error: messageOf(error) })
    })
  if (extension.isTakenOver) tryToExtend()
  const timer = setInterval(tryToExtend, extendEveryMs)
  timer.unref()
  return {
    stop() {
      clearInterval(timer)
      stopped.abort()
    },
  }
}
