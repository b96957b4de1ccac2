import type { Generated } from 'kysely'
import type { CallRow } from './call-row.ts'
import type { ContributionRow } from './contributions.ts'
import type { Lane } from './queue.ts'
import type { ApiKeyRow, RestrictionRow, UserCredentialRow } from './service-rows.ts'
import type { ApprovalRow, ClaimRow, TurnRow } from './store.ts'

/**
 * The tables. Times are ISO 8601 in UTC with milliseconds, so that they sort as text. Columns named `*_json` hold
 * JSON; free text is kept JSON-escaped (see `codec.ts`), since PostgreSQL's text has no NUL.
 */
export interface Tables {
  runs: RunsTable
  events: {
    run_id: string
    sequence: number
    at: string
    event_json: string
    host_generation: number | null
    host_sequence: number | null
  }
  turns: {
    id: string
    run_id: string
    ordinal: number
    state: TurnRow['state']
    prompt: string
    final: number
    end_json: string | null
    outcome_json: string | null
    sent_prompt: string | null
  }
  commands: {
    id: string
    run_id: string
    state: 'running' | 'ended'
    request_json: string
    result_json: string | null
    actor: string | null
  }
  approvals: ApprovalsTable
  calls: {
    run_id: string
    call_id: string
    tool: string
    state: CallRow['state']
    decision_json: string | null
    opened_at: string
    actor: string | null
    request_json: string | null
    summary_json: string | null
    was_released: number
    sequence: number
  }
  claims: {
    namespace: string
    name: string
    generation: number
    run_id: string
    key_id: string
    state: ClaimRow['state']
    uid: string | null
    sandbox_uid: string | null
    pod_uid: string | null
    handle_json: string | null
    created_at: string
  }
  /** Heads of the chains that belong to no run; a run's own head is in its row. */
  audit_heads: { chain: string; count: number; mac: string }
  audit: {
    position: Generated<number>
    run_id: string
    sequence: number
    at: string
    tool: string
    decision: string
    record: string
    mac: string
  }
  blobs: {
    id: string
    run_id: string
    name: string
    state: 'writing' | 'complete'
    sha256: string
    bytes: number
    touched_ms: number
  }
  contents: {
    id: string
    owner: string
    sha256: string
    bytes: number
    state: 'writing' | 'complete' | 'deleting'
    touched_ms: number
  }
  content_chunks: { content_id: string; ordinal: number; data: Uint8Array }
  checkpoints: {
    run_id: string
    owner: string
    generation: number
    host_sequence: number
    policy_version: string
    created_at: string
    workspace_kind: 'manifest' | 'archive' | null
    workspace_sha256: string | null
    tree_sha256: string | null
    session_sha256: string | null
  }
  checkpoint_contents: { run_id: string; content_id: string }
  blob_chunks: { blob_id: string; ordinal: number; data: Uint8Array }
  api_keys: {
    id: string
    hash: string
    owner: string
    role: ApiKeyRow['role']
    created_at: string
    name: string | null
    created_by: string | null
    created_with: string | null
    expires_at: string | null
    revoked_at: string | null
    revoked_by: string | null
    last_used_at: string | null
  }
  idempotency_keys: {
    owner: string
    key: string
    fingerprint: string
    status: number
    body: string
    created_at: string
  }
  settings: { name: string; value: string }
  restrictions: {
    kind: 'run' | 'owner' | 'all'
    /** Id of the run, or the owner. Empty for all runs. */
    target: string
    owner: string | null
    level: RestrictionRow['level']
    reason: string
    set_by: string
    role: ApiKeyRow['role']
    at: string
  }
  user_credentials: {
    owner: string
    kind: UserCredentialRow['kind']
    /** A host, or the base URL of a model server. */
    target: string
    user_name: string | null
    fingerprint: string
    sealed: string
    key_id: string
    set_at: string
    last_used_at: string | null
  }
  /** Credentials that a replica of the egress proxy is to check, or has checked. */
  credential_checks: {
    id: string
    owner: string
    credential_json: string
    plan_json: string
    until_ms: number
    is_claimed: number
    verdict_json: string | null
  }
  run_contributions: {
    run_id: string
    person: string
    /** Empty with an access token. */
    key_id: string
    how: ContributionRow['how']
    at: string
  }
  trusted_folders: {
    owner: string
    /** SHA-256 of the path: a path can be longer than what PostgreSQL has in an index. */
    id: string
    path: string
    settings: string | null
    origin: 'first_run' | 'trust'
    trusted_at: string
  }
  replicas: { id: string; name: string; version: string; started_ms: number; seen_ms: number }
  leases: { name: string; holder: string; expires_ms: number }
  /** Sandboxes whose commands have network access through the proxy of the cluster. */
  egress_networks: { run_id: string; generation: number; kind: 'agent' | 'command'; pod_json: string }
  pushed_branches: { run_id: string; repository: string; ref: string; commit_id: string; at: string }
  /** Replicas of the egress proxy: the number of the last report, and when a replica was last connected. */
  egress_proxies: { id: string; last_report: number; seen_ms: number; changed_ms: number }
  model_reservations: { id: string; run_id: string; tokens: number; until_ms: number }
  queue: QueueTable
  /** When waiting runs were started, for the estimates of other runs. */
  queue_starts: { lane: Lane; at_ms: number }
  schema_migrations: { version: number; name: string; applied_at: string }
}

interface RunsTable {
  id: string
  kind: 'agent' | 'command'
  owner: string
  state: string
  task: string
  workspace_json: string
  agent_json: string
  agent_spec_json: string
  labels_json: string
  settings_json: string
  allowed_hosts_json: string | null
  setup_json: string | null
  push_json: string | null
  interactive: number
  generation: number
  sandbox_json: string | null
  failure_json: string | null
  outcome_json: string | null
  policy_version: string
  key_id: string
  last_sequence: number
  host_sequence: number
  host_reread: number
  audit_count: number
  audit_mac: string
  created_at: string
  started_at: string | null
  first_event_at: string | null
  ended_at: string | null
  checkpoint_at: string | null
  holder: string | null
  ending_json: string | null
  used_at: string | null
  active_ms: number
  waiting_json: string | null
  checkpoint_json: string | null
  carried_calls_json: string | null
  losses: number
  ends_with_service: number
  suspend_asked_at: string | null
  usage_json: string | null
  touched_secret: number
  source_json: string | null
  egress_bytes: Generated<number>
  traceparent: string | null
}

/** All times are of the store's clock, in milliseconds since 1970. */
interface QueueTable {
  run_id: string
  lane: Lane
  owner: string
  /** When the run was queued for the first time. */
  queued_ms: number | null
  /** 1: the oldest waiting run of its owner; 0: another waiting run; null: the run does not wait. */
  place: number | null
  /** When the run became the first of its owner. */
  turn_ms: number | null
  /** When this wait began. */
  entered_ms: number | null
  /** Start of the wait that has a deadline. */
  deadline_from_ms: number | null
  /** A run that found no room does not try again before this time, even if there seems to be room. */
  not_before_ms: number
  /** When a run that found no room tries again, even if no room was reported. */
  due_ms: number | null
  attempts: number
}

interface ApprovalsTable {
  run_id: string
  request_id: string
  call_id: string
  kind: ApprovalRow['kind']
  tool: string
  binding: string
  command_hash: string | null
  redacted: number
  state: ApprovalRow['state']
  scope: 'once' | 'run' | null
  decided_by: string | null
  reason: string | null
  answer: string | null
  expires_at: string
  created_at: string
}
