import * as z from 'zod'

/**
 * Every error code that crosses a process boundary, with its HTTP status. It includes failure codes of runs, because
 * a request that waits for a run returns them.
 */
export const ERROR_STATUS = {
  invalid_request: 400,
  invalid_config: 400,
  invalid_path: 400,
  workspace_invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  policy_denied: 403,
  not_found: 404,
  conflict: 409,
  already_configured: 409,
  already_decided: 409,
  budget_exceeded: 409,
  ambiguous_command_hash: 409,
  idempotency_mismatch: 409,
  run_ended: 409,
  run_not_ready: 409,
  restricted: 409,
  outbox_overrun: 410,
  payload_too_large: 413,
  storage_full: 413,
  unsupported_media_type: 415,
  configure_failed: 422,
  setup_failed: 422,
  rate_limited: 429,
  too_many_runs: 429,
  queue_full: 429,
  too_many_streams: 429,
  internal: 500,
  store_damaged: 500,
  agent_pod_reconciler_error: 502,
  agent_failed: 502,
  ended_without_outcome: 502,
  configure_rejected: 502,
  identity_mismatch: 502,
  sandbox_lost: 502,
  credential_absent: 502,
  credential_forbidden: 502,
  credential_unavailable: 503,
  capacity_unavailable: 503,
  agent_quota_exceeded: 503,
  not_configured: 503,
  isolation_unavailable: 503,
  unavailable: 503,
  agent_stall_timeout: 504,
  idle_timeout: 504,
  deadline_exceeded: 504,
  outcome_unknown: 504,
  api_restarted: 503,
} as const satisfies Record<string, number>

export type ErrorCode = keyof typeof ERROR_STATUS
export const ErrorCode = z.enum(Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]])

/** RFC 9457 problem details, as returned by the API and AgentHost. */
export const Problem = z.object({
  type: z.string().default('about:blank'),
  title: z.string(),
  status: z.int(),
  code: ErrorCode,
  detail: z.string(),
  requestId: z.string().optional(),
  /** The invalid fields of a malformed request. */
  errors: z.array(z.object({ field: z.string(), message: z.string() })).optional(),
})
export type Problem = z.infer<typeof Problem>

export const PROBLEM_MEDIA_TYPE = 'application/problem+json'
