import { WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { delay } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { AttachRequest, BoundSandbox, ClaimRequest, LocatedSandbox } from '../provider.ts'
import { awaitBound, type BoundClaim } from './claims/await-bound.ts'
import { buildClaim } from './claims/build-claim.ts'
import type { ClaimHandle } from './claims/claim-handle.ts'
import { LAUNCH_TYPE_LABEL } from './claims/claim-objects.ts'
import type { ClaimWatches } from './claims/claim-watches.ts'
import { deleteClaim } from './claims/delete-claim.ts'
import { keepClaimAlive } from './claims/extend-claim.ts'
import { postClaim } from './claims/post-claim.ts'
import { howLost, watchForLoss } from './claims/watch-lost.ts'
import type { KubeApi } from './client/kube-api.ts'
import { conditionOf } from './client/kube-object.ts'
import { type Expected, followChain, type PinnedIdentity } from './identity/identity-chain.ts'
import type { IssuerKeys } from './identity/issuer-keys.ts'
import { isolationOf, warningsOf } from './kubernetes-isolation.ts'
import { hostAt, type OpenedAhead, prepareSandbox, readPod } from './prepare-sandbox.ts'
import type { KubernetesProviderOptions, ProviderTiming } from './provider-options.ts'

export type BindOptions = Omit<KubernetesProviderOptions, 'timing' | 'connect'> &
  ProviderTiming & { readonly api: KubeApi; readonly watches: ClaimWatches; readonly keys: IssuerKeys }

type BindRequest = ClaimRequest & ClaimHandle

const workingDirectory = () => WORKSPACE_MOUNT

/** Creates a claim, waits until it is bound and verifies the pod. Takes two requests (create claim, get pod) without errors. */
export async function bindSandbox(options: BindOptions, request: BindRequest): Promise<BoundSandbox> {
  const startedAt = performance.now()
  const { api, clock, lifetime, deploymentId } = options
  const { kind, namespace, signal, nonce, claimName } = request
  const shutdownTime = new Date(clock().getTime() + lifetime.lifetimeMs)
  const pool = options.pool(kind)
  const claim = buildClaim({ name: claimName, namespace, pool, kind, deploymentId, nonce, shutdownTime })
  const posted = await postClaim(api, claim, signal)
  const kept = request.onPosted(posted.metadata.uid)
  kept.catch(() => undefined)
  const expected: Expected = {
    namespace,
    claimName,
    claimUid: posted.metadata.uid,
    runtimeClass: options.runtimeClass,
    serviceAccount: options.serviceAccount(kind),
  }
  const onForeseen = ({ podUid }: PinnedIdentity) =>
    request.onForeseen?.({ instanceId: podUid, workingDirectory })
  const ahead = prepareSandbox({ ...options, signal, onForeseen }, expected)
  try {
    const { onChosen, onAdopted } = ahead
    const bound = await awaitBound({ ...options, onChosen, onAdopted }, posted, signal)
    const pinned = await ahead.pin(bound)
    const opened = ahead.openTo(pinned)
    await kept
    const facts = { handle: request.handle, launch: launchOf(bound), bindMs: performance.now() - startedAt }
    return toBoundSandbox(options, pinned, { ...facts, opened })
  } catch (error) {
    ahead.abandon()
    throw error
  }
}

/** Takes over a sandbox that another process bound. */
export async function attachSandbox(options: BindOptions, request: AttachRequest): Promise<BoundSandbox> {
  const { pinned, launch } = await proveAgain(options, request)
  return toBoundSandbox(options, pinned, { handle: request.handle, launch, bindMs: 0, isTakenOver: true })
}

/** Address and verified identity of a sandbox that another process drives. */
export async function locateSandbox(options: BindOptions, request: AttachRequest): Promise<LocatedSandbox> {
  const { pinned } = await proveAgain(options, request)
  return {
    instanceId: pinned.podUid,
    isolation: isolationOf(options.runtimeClass),
    address: hostAt(options, pinned),
  }
}

/** How long to retry: the watch may lag behind the process that bound the sandbox, and readiness can flap. */
const BEHIND_MS = 10_000
const LOOK_AGAIN_MS = 100

/** Verifies the identity chain again. It must end at the Sandbox and pod that are stored in the row. */
async function proveAgain(options: BindOptions, request: AttachRequest) {
  const { api, namespace } = options
  const { claimName, uids, signal } = request
  const bound = await findBound(options, request)
  const expected: Expected = {
    namespace,
    claimName,
    claimUid: uids.claim,
    runtimeClass: options.runtimeClass,
    serviceAccount: options.serviceAccount(request.kind),
  }
  const pod = await readPod(api.get, bound.sandbox.metadata, signal)
  const pinned = followChain(expected, { ...bound, pod })
  if (pinned.sandboxUid !== uids.sandbox || pinned.podUid !== uids.pod)
    throw new SandboxError('sandbox_lost', 'the claim has another sandbox than the one that was bound')
  return { pinned, launch: launchOf(bound) }
}

async function findBound({ watches }: BindOptions, request: AttachRequest): Promise<BoundClaim> {
  const { claimName, uids, signal } = request
  for (const giveUpAt = performance.now() + BEHIND_MS; ; await delay(LOOK_AGAIN_MS, signal)) {
    const claim = watches.claims.get(claimName)
    const name = claim?.metadata.uid === uids.claim ? claim.status?.sandbox?.name : undefined
    const sandbox = name === undefined ? undefined : watches.sandboxes.get(name)
    const isReady = conditionOf(claim?.status?.conditions, 'Ready')?.status === 'True'
    if (claim && sandbox && isReady) return { claim, sandbox }
    if (performance.now() > giveUpAt)
      throw new SandboxError('sandbox_lost', 'the claim or its sandbox is gone, or not ready')
  }
}

/** For information only: nothing that is trusted depends on this label. */
const launchOf = ({ claim, sandbox }: BoundClaim): 'warm' | 'cold' => {
  const told = sandbox.metadata.labels?.[LAUNCH_TYPE_LABEL]
  if (told === 'warm' || told === 'cold') return told
  return sandbox.metadata.name === claim.metadata.name ? 'cold' : 'warm'
}

type Facts = Pick<BoundSandbox, 'launch' | 'bindMs' | 'handle'> & {
  readonly isTakenOver?: boolean
  readonly opened?: OpenedAhead
}

function toBoundSandbox(
  options: BindOptions,
  pinned: PinnedIdentity,
  { isTakenOver = false, opened, ...facts }: Facts,
): BoundSandbox {
  const { namespace, claimName, podName, podUid } = pinned
  const claim = { namespace, name: claimName, uid: pinned.claimUid }
  const { promise: lost, resolve: lose } = Promise.withResolvers<string>()
  const life = keepClaimAlive({ ...options, ...options.lifetime, isTakenOver }, claim)
  const watch = watchForLoss(options, pinned, (how) => {
    life.stop()
    lose(how)
  })
  const leave = () => {
    life.stop()
    watch.stop()
    opened?.prepared.close()
  }
  let released: Promise<boolean> | undefined
  return {
    ...facts,
    namespace,
    claimName,
    podName,
    instanceId: podUid,
    uids: { claim: pinned.claimUid, sandbox: pinned.sandboxUid, pod: podUid },
    isolation: isolationOf(options.runtimeClass),
    isDescribedByHost: true,
    warnings: warningsOf(options.runtimeClass),
    ...present({ health: opened?.health }),
    address: { ...hostAt(options, pinned), ...present({ prepared: opened?.prepared }) },
    workingDirectory,
    podAddresses: pinned.podIps.split(' '),
    lost,
    howLost: (signal) => howLost(options, pinned, signal),
    detach: leave,
    release: async () => {
      leave()
      released ??= deleteClaim({ ...options, timeoutMs: options.deleteMs }, claim)
      await released
    },
  }
}
