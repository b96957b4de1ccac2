import type { ErrorCode } from '../../../../contracts/errors.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Condition } from '../client/kube-object.ts'

type Meaning = {
  /** Whether waiting may help. A transient reason becomes a fault only at the deadline. */
  readonly isFinal: boolean
  readonly code: ErrorCode
  readonly remedy: string
}

const waits = (code: ErrorCode, remedy: string): Meaning => ({ isFinal: false, code, remedy })
const ends = (code: ErrorCode, remedy: string): Meaning => ({ isFinal: true, code, remedy })

const POOL_MISSING = 'the pool or its template is not there: apply the charts'
const TOO_SLOW = 'the pool had no sandbox ready, and none became ready in time: raise its replicas'
const OUR_MISTAKE = 'the controller refuses the claim itself, which no claim of this service can cause'

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
    'the claim expired: the service that extends it was away, or a clock is wrong',
  ),
  SandboxExpired: ends('sandbox_lost', 'the sandbox expired by itself'),
  SandboxSuspended: ends('sandbox_lost', 'somebody suspended the sandbox'),
  PodFailed: ends('sandbox_lost', 'the pod failed, and a failed pod is not made again'),
  PodSucceeded: ends('sandbox_lost', 'the pod ended by itself'),
  MultiplePods: ends('identity_mismatch', 'the sandbox owns more than one pod'),
}

/** What a quota says when it refuses, whichever of its dimensions is full. */
const QUOTA = /exceeded quota|forbidden: .*quota/i

/** Refused for want of room: reasons of the API server come as the controller's words. */
export const isQuotaMessage = (message: string): boolean => QUOTA.test(message)

const QUOTA_MEANING = ends('agent_quota_exceeded', 'the namespace has no room: wait, or raise its quota')
const AMBIGUOUS = waits('agent_pod_reconciler_error', 'the controller failed: its message says why')
const UNKNOWN = waits('agent_pod_reconciler_error', 'this service does not know that reason')

/** `ReconcilerError` stands for anything; what it says decides. An unknown reason is never taken for success. */
export function meaningOf({ reason = '', message = '' }: Condition): Meaning {
  if (reason === 'ReconcilerError') return isQuotaMessage(message) ? QUOTA_MEANING : AMBIGUOUS
  return Object.hasOwn(CLAIM_REASONS, reason) ? (CLAIM_REASONS[reason] ?? UNKNOWN) : UNKNOWN
}

/** Whoever may write a status may write a long one. */
const MAX_MESSAGE = 1_000

/** A condition as the fault that it is, in words for people. */
export function faultOf(condition: Condition, cause?: unknown): SandboxError {
  const { code, remedy } = meaningOf(condition)
  const { reason = 'no reason', message = '' } = condition
  const said = message === '' ? reason : `${reason}, ${message.slice(0, MAX_MESSAGE)}`
  return new SandboxError(code, `the sandbox could not be had (${said}): ${remedy}`, { cause })
}
