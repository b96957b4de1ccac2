import { messageOf } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import type { KubeApi } from '../client/kube-api.ts'
import { type Condition, conditionOf, controllerOf } from '../client/kube-object.ts'
import { podsIn } from '../client/resource.ts'
import type { PinnedIdentity } from '../identity/identity-chain.ts'
import { PodObject } from './claim-objects.ts'
import { meaningOf } from './claim-reasons.ts'
import type { ClaimWatches } from './claim-watches.ts'

export type LossOptions = {
  readonly api: KubeApi
  readonly watches: ClaimWatches
  readonly log: Log
  /** A sandbox that is not ready for this long is lost even if its pod exists: its node is probably gone. */
  readonly unreadyMs: number
  readonly checkEveryMs: number
}

/**
 * Calls back once when the claim, Sandbox or pod is not the pinned one any more. The controller binds another Sandbox to a
 * claim that lost its own; the run must not continue in that one.
 */
export function watchForLoss(
  options: LossOptions,
  pinned: PinnedIdentity,
  onLost: (how: string) => void,
): { stop(): void } {
  const { watches, log, checkEveryMs } = options
  const stopped = new AbortController()
  let unreadySince: number | undefined
  let isAsking = false

  const end = (how: string) => {
    if (stopped.signal.aborted) return
    stop()
    onLost(how)
  }
  const look = () => {
    const how = lossIn(watches, pinned)
    if (how !== undefined) return end(how)
    if (isReady(watches, pinned)) unreadySince = undefined
    else askForPod()
  }
  const askForPod = () => {
    unreadySince ??= performance.now()
    if (performance.now() - unreadySince > options.unreadyMs)
      return end(`the sandbox was not ready for ${options.unreadyMs / 1000} s`)
    if (isAsking) return
    isAsking = true
    podLoss(options, pinned, stopped.signal)
      .then((how) => how !== undefined && end(how))
      .catch((error: unknown) => log.info('a pod could not be read', { error: messageOf(error) }))
      .finally(() => {
        isAsking = false
      })
  }
  const leave = [
    watches.claims.onChange(pinned.claimName, look),
    watches.sandboxes.onChange(pinned.sandboxName, look),
  ]
  const checks = setInterval(() => unreadySince !== undefined && look(), checkEveryMs)
  checks.unref()
  const stop = () => {
    for (const unsubscribe of leave) unsubscribe()
    clearInterval(checks)
    stopped.abort()
  }
  look()
  return { stop }
}

/** Checks the watches first, then reads the pod. Returns why the sandbox is lost, or undefined. */
export async function howLost(
  options: Pick<LossOptions, 'api' | 'watches'>,
  pinned: PinnedIdentity,
  signal: AbortSignal,
): Promise<string | undefined> {
  return lossIn(options.watches, pinned) ?? podLoss(options, pinned, signal)
}

function lossIn(watches: ClaimWatches, pinned: PinnedIdentity): string | undefined {
  return claimLoss(watches, pinned) ?? sandboxLoss(watches, pinned)
}

function claimLoss({ claims }: ClaimWatches, pinned: PinnedIdentity): string | undefined {
  const claim = claims.get(pinned.claimName)
  if (claim?.metadata.uid !== pinned.claimUid) return 'the claim was deleted'
  if (claim.metadata.deletionTimestamp !== undefined) return 'the claim is being deleted'
  const ready = conditionOf(claim.status?.conditions, 'Ready')
  if (ready && isFinal(ready)) return `the claim reports ${ready.reason}: ${ready.message ?? ''}`
  const bound = claim.status?.sandbox?.name
  return bound === pinned.sandboxName ? undefined : `the claim now names ${bound || 'no sandbox'}`
}

function sandboxLoss({ sandboxes }: ClaimWatches, pinned: PinnedIdentity): string | undefined {
  const sandbox = sandboxes.get(pinned.sandboxName)
  if (sandbox?.metadata.uid !== pinned.sandboxUid) return 'the sandbox was deleted'
  if (sandbox.metadata.deletionTimestamp !== undefined) return 'the sandbox is being deleted'
  if (controllerOf(sandbox)?.uid !== pinned.claimUid) return 'the sandbox belongs to another owner'
  const addresses = sandbox.status?.podIPs ?? []
  const isMoved = addresses.length > 0 && !addresses.includes(pinned.podIp)
  return isMoved ? 'the sandbox has another pod' : undefined
}

const isFinal = (ready: Condition): boolean => ready.status !== 'True' && meaningOf(ready).isFinal

const isReady = ({ sandboxes }: ClaimWatches, { sandboxName }: PinnedIdentity): boolean =>
  conditionOf(sandboxes.get(sandboxName)?.status?.conditions, 'Ready')?.status === 'True'

/** Readiness can flap, so the pod's own status decides. */
async function podLoss({ api }: Pick<LossOptions, 'api'>, pinned: PinnedIdentity, signal: AbortSignal) {
  const found = await api.get(podsIn(pinned.namespace), pinned.podName, signal)
  if (found === undefined) return 'the pod is gone'
  const { metadata, status } = PodObject.parse(found)
  if (metadata.uid !== pinned.podUid) return 'the pod was replaced'
  if (metadata.deletionTimestamp !== undefined) return 'the pod is being deleted'
  return status?.phase === 'Running' ? undefined : `the pod is ${status?.phase ?? 'in no phase'}`
}
