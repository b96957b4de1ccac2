import type { ErrorCode } from '../../../../contracts/errors.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Condition } from '../client/kube-object.ts'

type Meaning = {
  /** False for a transient reason, which becomes an error only at the deadline. */
  readonly isFinal: boolean
  readonly code: ErrorCode
  readonly remedy: string
}

const waits = (code: ErrorCode, remedy: string): Meaning => ({ isFinal: false, code, remedy })
const ends = (code: ErrorCode, remedy: string): Meaning => ({ isFinal: true, code, remedy })

const POOL_MISSING = 'the pool or its template does not exist: apply the charts'
const TOO_SLOW = 'the pool had no sandbox ready, and none became ready in time: raise its replicas'
const OUR_MISTAKE =
  'the controller rejected the claim; a claim of this service should never cause this, so report it as a bug'

/** Every reason that the controller gives for Ready=False on a claim, in agent-sandbox v1.0. */
export const CLAIM_REASONS: Readonly<Record<string, Meaning>> = {
  AdoptionConflict: waits('capacity_unavailable', TOO_SLOW),
  SandboxCreatePending: waits('capacity_unavailable', TOO_SLOW),
  SandboxMissing: waits('capacity_unavailable', TOO_SLOW),
  SandboxNotReady: waits('capacity_unavailable', TOO_SLOW),
  DependenciesNotReady: waits('capacity_unavailable', TOO_SLOW),
  WarmPoolNotFound: waits('agent_pod_reconciler_error', POOL_MISSING),
  TemplateNotFound: waits('agent_pod_reconciler_error', POOL_MISSING),
  InvalidMetadata: ends('agent_pod_reconciler_error', OUR_MISTAKE),
  EnvVarsInjectionRejected: ends('agent_pod_reconciler_error', OUR_MISTAKE),
  VolumeClaimTemplatesError: ends('agent_pod_reconciler_error', OUR_MISTAKE),
  ClaimExpired: ends(
    'sandbox_lost',
    'the claim expired: the service that extends it was down, or a clock is wrong',
  ),
  SandboxExpired: ends('sandbox_lost', 'the sandbox expired by itself'),
  SandboxSuspended: ends('sandbox_lost', 'the sandbox was suspended from outside this service'),
  PodFailed: ends('sandbox_lost', 'the pod failed, and a failed pod is not recreated'),
  PodSucceeded: ends('sandbox_lost', 'the pod ended by itself'),
  MultiplePods: ends('identity_mismatch', 'the sandbox owns more than one pod'),
}

/** Matches the message of an exceeded ResourceQuota. */
const QUOTA = /exceeded quota|forbidden: .*quota/i

/** Whether a quota rejected the request. The controller copies the API server's message. */
export const isQuotaMessage = (message: string): boolean => QUOTA.test(message)

const QUOTA_MEANING = ends(
  'agent_quota_exceeded',
  'the quota of the namespace is exhausted: wait, or raise the quota',
)
const AMBIGUOUS = waits('agent_pod_reconciler_error', 'the controller failed: see its message')
const UNKNOWN = waits(
  'agent_pod_reconciler_error',
  'unknown reason: the controller may be newer than this service',
)

/** `ReconcilerError` covers any failure, so its message decides. An unknown reason is treated as transient. */
export function meaningOf({ reason = '', message = '' }: Condition): Meaning {
  if (reason === 'ReconcilerError') return isQuotaMessage(message) ? QUOTA_MEANING : AMBIGUOUS
  return Object.hasOwn(CLAIM_REASONS, reason) ? (CLAIM_REASONS[reason] ?? UNKNOWN) : UNKNOWN
}

/** The status is not trusted to be short. */
const MAX_MESSAGE = 1_000

/** Turns a condition into an error with a readable message and a remedy. */
export function faultOf(condition: Condition, cause?: unknown): SandboxError {
  const { code, remedy } = meaningOf(condition)
  const { reason = 'no reason', message = '' } = condition
  const said = message === '' ? reason : `${reason}, ${message.slice(0, MAX_MESSAGE)}`
  return new SandboxError(code, `no sandbox could be claimed (${said}): ${remedy}`, { cause })
}
