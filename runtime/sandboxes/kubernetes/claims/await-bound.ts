import { SandboxError } from '../../../kit/errors.ts'
import type { KubeApi } from '../client/kube-api.ts'
import { type Condition, conditionOf, controllerOf } from '../client/kube-object.ts'
import { claimsIn } from '../client/resource.ts'
import { ASSIGNED_ANNOTATION, ClaimObject, type SandboxObject } from './claim-objects.ts'
import { faultOf, meaningOf } from './claim-reasons.ts'
import type { ClaimWatches } from './claim-watches.ts'

export type BoundClaim = { readonly claim: ClaimObject; readonly sandbox: SandboxObject }

export type AwaitOptions = {
  readonly api: KubeApi
  readonly watches: ClaimWatches
  /** A watch that has not shown a known change after this time is restarted. */
  readonly suspectAfterMs: number
  /** Called with the ready Sandbox that the controller has chosen for the claim, and again if the choice changes. */
  readonly onChosen?: (sandbox: SandboxObject) => void
  /** Called once when a ready Sandbox belongs to the claim, which is some time before the claim's status shows it. */
  readonly onAdopted?: (sandbox: SandboxObject) => void
}

/**
 * Waits on the shared watches until our claim is bound. Continues to wait on transient reasons and throws on final ones. At
 * the caller's deadline, the last reason decides the error code.
 */
export async function awaitBound(
  options: AwaitOptions,
  posted: ClaimObject,
  signal: AbortSignal,
): Promise<BoundClaim> {
  const { claims, sandboxes } = options.watches
  const { promise, resolve, reject } = Promise.withResolvers<BoundClaim>()
  const wait = new Wait(options, posted)
  let following: string | undefined
  let leaveSandbox: () => void = () => undefined
  const look = () => {
    try {
      const found = wait.look()
      if (found) return resolve(found)
      const name = wait.expected
      if (name === undefined || name === following) return
      leaveSandbox()
      following = name
      leaveSandbox = sandboxes.onChange(name, look)
    } catch (error) {
      reject(error)
    }
  }
  const leaveClaim = claims.onChange(posted.metadata.name, look)
  const suspicion = setInterval(() => void wait.suspect(signal).then(look, reject), options.suspectAfterMs)
  const onAbort = () => reject(wait.overdue(signal.reason))
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    if (signal.aborted) onAbort()
    look()
    return await promise
  } finally {
    leaveClaim()
    leaveSandbox()
    clearInterval(suspicion)
    signal.removeEventListener('abort', onAbort)
  }
}

/** How often a watch is restarted before its state is believed. */
const PATIENCE = 1

/** State of the wait for one claim. */
class Wait {
  readonly #options: AwaitOptions
  readonly #posted: ClaimObject
  #last: Condition | undefined
  #isSeen = false
  #suspicions = 0
  #suspectedAt: number | undefined
  #sandboxName: string | undefined
  #chosenUid: string | undefined
  #isAdopted = false
  /** Name of the Sandbox to follow: the claim's own, or the one that the controller has chosen for it. */
  expected: string | undefined

  constructor(options: AwaitOptions, posted: ClaimObject) {
    this.#options = options
    this.#posted = posted
  }

  /** Returns the bound claim and its Sandbox, or undefined to keep waiting. Throws on a final reason. */
  look(): BoundClaim | undefined {
    const { claims, sandboxes } = this.#options.watches
    const claim = claims.get(this.#posted.metadata.name)
    if (!claim) return this.#absent()
    this.#isSeen = true
    requireSame(claim, this.#posted)
    const ready = conditionOf(claim.status?.conditions, 'Ready')
    this.#last = ready ?? this.#last
    this.#noteAdoption(claim)
    if (ready?.status !== 'True') return this.#notReady(ready)
    const { name, podIPs } = claim.status?.sandbox ?? {}
    if (!name || !podIPs?.length) return undefined
    this.#sandboxName = name
    this.expected = name
    const sandbox = sandboxes.get(name)
    return sandbox && this.#isSettled(sandbox) ? { claim, sandbox } : undefined
  }

  /** The controller annotates the claim with its choice first. This is only a hint; the identity chain is verified later. */
  #noteAdoption({ metadata }: ClaimObject): void {
    const choice = metadata.annotations?.[ASSIGNED_ANNOTATION]
    if (this.#isAdopted || choice === undefined) return
    this.expected = choice
    const sandbox = this.#options.watches.sandboxes.get(choice)
    const isReady = conditionOf(sandbox?.status?.conditions, 'Ready')?.status === 'True'
    if (!sandbox || !isReady) return
    if (this.#chosenUid !== sandbox.metadata.uid) {
      this.#chosenUid = sandbox.metadata.uid
      this.#options.onChosen?.(sandbox)
    }
    if (controllerOf(sandbox)?.uid !== metadata.uid) return
    this.#isAdopted = true
    this.#options.onAdopted?.(sandbox)
  }

  /** The Sandbox watch may lag and still show the pool as owner. After `PATIENCE` restarts its state is believed. */
  #isSettled(sandbox: SandboxObject): boolean {
    return controllerOf(sandbox)?.uid === this.#posted.metadata.uid || this.#suspicions > PATIENCE
  }

  #absent(): undefined {
    if (this.#isSeen) throw gone('it was deleted')
  }

  #notReady(ready: Condition | undefined): undefined {
    if (ready && meaningOf(ready).isFinal) throw faultOf(ready)
  }

  /** Restarts a watch that does not show a change known from our own request or from the other watch. */
  async suspect(signal: AbortSignal): Promise<void> {
    const { api, watches } = this.#options
    const { name, namespace } = this.#posted.metadata
    if (this.#isSeen) {
      if (this.#sandboxName === undefined || !this.#isDue()) return
      this.#suspicions += 1
      this.#suspectedAt = performance.now()
      if (this.#suspicions <= PATIENCE)
        watches.sandboxes.suspect(`${this.#sandboxName} does not belong to this claim according to the watch`)
      return
    }
    watches.claims.suspect(`it has not shown the claim ${name}`)
    const current = await api.get(claimsIn(namespace), name, signal)
    if (current === undefined) throw gone('it was deleted')
    requireSame(ClaimObject.parse(current), this.#posted)
  }

  /** False while the watch is not served, and shortly after it was restarted. */
  #isDue(): boolean {
    const { watches, suspectAfterMs } = this.#options
    if (this.#suspectedAt === undefined) return true
    const { servedSince = Number.POSITIVE_INFINITY } = watches.sandboxes
    return servedSince > this.#suspectedAt && performance.now() - servedSince >= suspectAfterMs / 2
  }

  /** Turns a timeout into an error with the last known reason; returns any other abort reason unchanged. */
  overdue(reason: unknown): unknown {
    if (!(reason instanceof DOMException) || reason.name !== 'TimeoutError') return reason
    if (this.#last && this.#last.status !== 'True') return faultOf(this.#last, reason)
    const message =
      'the agent-sandbox controller has not bound the claim: is it running, and does it serve this namespace?'
    return new SandboxError('agent_pod_reconciler_error', message, { cause: reason })
  }
}

function requireSame({ metadata }: ClaimObject, posted: ClaimObject): void {
  if (metadata.uid !== posted.metadata.uid)
    throw new SandboxError('identity_mismatch', `the claim ${metadata.name} was replaced by another`)
  if (metadata.deletionTimestamp !== undefined) throw gone('it is being deleted')
}

const gone = (how: string) =>
  new SandboxError('sandbox_lost', `the claim was lost before it was bound: ${how}`)
