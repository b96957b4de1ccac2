import { CLAIM } from '../../../../contracts/claim.ts'
import { SandboxError } from '../../../kit/errors.ts'
import {
  type ClaimObject,
  POD_NAME_ANNOTATION,
  type PodObject,
  type SandboxObject,
} from '../claims/claim-objects.ts'
import { conditionOf, controllerOf, type KubeObject } from '../client/kube-object.ts'
import { SANDBOX_GROUP } from '../client/resource.ts'

/** Required properties of the pod that serves a run. */
export type Expected = {
  readonly namespace: string
  readonly claimName: string
  /** From the response to our create request. */
  readonly claimUid: string
  /** Undefined if the environment requires no hard isolation. */
  readonly runtimeClass: string | undefined
  readonly serviceAccount: string
}

export type Links = {
  readonly claim: ClaimObject
  readonly sandbox: SandboxObject
  readonly pod: PodObject
}

/** The verified identity of the pod that serves a run. It does not change during the run. */
export type PinnedIdentity = {
  readonly namespace: string
  readonly claimName: string
  readonly claimUid: string
  readonly sandboxName: string
  readonly sandboxUid: string
  readonly podName: string
  readonly podUid: string
  readonly podIp: string
  /** All addresses of the pod, separated by a space. */
  readonly podIps: string
  readonly serviceAccount: string
}

/**
 * Verifies the chain from our claim to the pod by UID. Names are not enough, because they can be reused. Throws
 * `identity_mismatch` with the failed check.
 */
export function followChain(expected: Expected, { claim, sandbox, pod }: Links): PinnedIdentity {
  checkClaim(expected, claim)
  requireThat(claim.status?.sandbox?.name === sandbox.metadata.name, 'the claim names another sandbox')
  const pinned = foreseeChain(expected, { sandbox, pod })
  // The claim and the pod must report the same address.
  requireThat(claim.status?.sandbox?.podIPs?.includes(pinned.podIp) === true, ADDRESSES_DIFFER)
  return pinned
}

/** Verifies the chain without the claim's status, which does not name the Sandbox yet. The result is not trusted alone. */
export function foreseeChain(expected: Expected, { sandbox, pod }: Omit<Links, 'claim'>): PinnedIdentity {
  checkSandbox(expected, sandbox)
  checkPod(expected, sandbox, pod)
  const podIp = ownAddressOf(pod)
  return {
    namespace: expected.namespace,
    claimName: expected.claimName,
    claimUid: expected.claimUid,
    sandboxName: sandbox.metadata.name,
    sandboxUid: sandbox.metadata.uid,
    podName: pod.metadata.name,
    podUid: pod.metadata.uid,
    podIp,
    podIps: (pod.status?.podIPs ?? []).map(({ ip }) => ip).join(' '),
    serviceAccount: expected.serviceAccount,
  }
}

function checkClaim({ namespace, claimName, claimUid }: Expected, claim: ClaimObject): void {
  const { metadata, spec } = claim
  requireThat(metadata.namespace === namespace && metadata.name === claimName, 'the claim is another one')
  requireThat(metadata.uid === claimUid, 'the claim was replaced by another of its name')
  requireThat(metadata.deletionTimestamp === undefined, 'the claim is being deleted')
  requireThat(conditionOf(claim.status?.conditions, 'Ready')?.status === 'True', 'the claim is not bound')
  requireThat(
    !spec.env?.length && !spec.volumeClaimTemplates?.length,
    'the claim requests more than the service did',
  )
}

function checkSandbox({ namespace, claimName, claimUid }: Expected, sandbox: SandboxObject): void {
  const { metadata } = sandbox
  requireThat(metadata.namespace === namespace, 'the sandbox is in another namespace')
  requireThat(metadata.deletionTimestamp === undefined, 'the sandbox is being deleted')
  const owner = { group: CLAIM.group, kind: CLAIM.kind, name: claimName, uid: claimUid }
  requireThat(isControlledBy(sandbox, owner), 'the sandbox does not belong only to this claim')
}

function checkPod({ namespace, ...required }: Expected, sandbox: SandboxObject, pod: PodObject): void {
  const { metadata, spec, status } = pod
  const tracked = sandbox.metadata.annotations?.[POD_NAME_ANNOTATION] || sandbox.metadata.name
  const isNamed = tracked === sandbox.metadata.name && metadata.name === tracked
  requireThat(isNamed && metadata.namespace === namespace, 'the pod is not the one of the sandbox')
  const { name, uid } = sandbox.metadata
  const owner = { group: SANDBOX_GROUP, kind: 'Sandbox', name, uid }
  requireThat(isControlledBy(pod, owner), 'the pod does not belong only to the sandbox')
  requireThat(metadata.deletionTimestamp === undefined, 'the pod is being deleted')
  requireThat(status?.phase === 'Running', 'the pod does not run')
  requireThat(
    spec.runtimeClassName === required.runtimeClass,
    `the pod runs under ${spec.runtimeClassName ?? 'the default runtime'}, not under ${required.runtimeClass ?? 'it'}`,
  )
  requireThat(spec.serviceAccountName === required.serviceAccount, 'the pod has another service account')
  requireThat(spec.hostNetwork !== true, 'the pod is in the network of its node')
}

const ADDRESSES_DIFFER = 'the addresses of the claim and of the pod differ'

function ownAddressOf({ status }: PodObject): string {
  const podIp = status?.podIP ?? ''
  const isOwn = podIp !== '' && (status?.podIPs ?? []).some(({ ip }) => ip === podIp)
  requireThat(isOwn, ADDRESSES_DIFFER)
  return podIp
}

type Owner = { readonly group: string; readonly kind: string; readonly name: string; readonly uid: string }

function isControlledBy(owned: KubeObject, { group, kind, name, uid }: Owner): boolean {
  const controller = controllerOf(owned)
  if (controller === undefined) return false
  const isKind = controller.apiVersion.split('/')[0] === group && controller.kind === kind
  return isKind && controller.name === name && controller.uid === uid
}

function requireThat(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new SandboxError('identity_mismatch', `the sandbox is refused: ${otherwise}`)
}
