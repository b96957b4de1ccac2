import type { Run, RunState, Turn, WaitingFor } from '../../contracts/api.ts'
import type { ErrorCode } from '../../contracts/errors.ts'
import type { HostEnvelope, RunEnvelope, RunEvent } from '../../contracts/events.ts'
import type { Isolation } from '../../contracts/exec.ts'
import type { SandboxSettings } from '../../contracts/policy.ts'
import type { AuditHead, AuditQuery, AuditRow } from './audit-rows.ts'
import type { CallChange, CallRow, NewCall, ReleasedCalls } from './call-row.ts'
import type { Checkpoint, CheckpointStore, CheckpointTransaction, RunOrigin } from './checkpoint.ts'
import type { EventListener } from './event-listeners.ts'
import type { QueueReads, QueueTransaction } from './queue.ts'

/** A run as the store keeps it: what callers see, and what the executor needs to go on after a restart. */
export interface RunRow extends Omit<Run, 'sandbox' | 'budgets' | 'queue' | 'source'> {
  readonly sandbox?: { readonly name: string; readonly isolation: Isolation }
  /** The run from whose checkpoint this run began. */
  readonly source?: RunOrigin
  /** The requested agent, without any credential. */
  readonly agentSpec: unknown
  /** Settings in force for this run, after ceiling, policy and request. */
  readonly settings: SandboxSettings
  readonly policyVersion: string
  readonly keyId: string
  /** Last host sequence of the current generation that is committed here. */
  readonly hostSequence: number
  /** How many of the events up to there a new driver reads again, since text of theirs was held back. */
  readonly hostReread: number
  /** The process that drives the run. No other process may write the run's progress. */
  readonly holder?: string
  /** How the run is to end, once that is decided; its driver may be another process. As JSON. */
  readonly ending?: unknown
  /** When a process that does not drive the run last used its sandbox. */
  readonly usedAt?: string
  /** Active time in ms that counts against the run's limit, across all drivers. Slightly more than the exact value. */
  readonly activeMs: number
  /** Where the run continues when it gets another sandbox. */
  readonly checkpoint?: Checkpoint
  /** Calls that wait for a decision while the run has no sandbox, or until its next sandbox announces them again. */
  readonly carriedCalls: readonly string[]
  /** When another process asked the driver to suspend the run. */
  readonly suspendAskedAt?: string
  /** The run ends with the service that started it, because a command started that service for it. */
  readonly endsWithService: boolean
  /** Sandboxes that were lost since the last turn ended. */
  readonly losses: number
  /** What the run has used of its budgets, across all its drivers and sandboxes. */
  readonly usage: RunUsage
  /** What the agent may have seen, across all sandboxes. Governance depends on it. */
  readonly touched: RunTouched
}

/** A flag that is set is never cleared. */
export interface RunTouched {
  /** The content of a secret file. */
  readonly secret: boolean
}

export interface RunUsage {
  steps: number
  model_requests: number
  tokens: number
  event_bytes: number
  /** As of the last report. The exact value follows from the start of the run. */
  wall_seconds: number
}

export type NewRun = Omit<
  RunRow,
  | 'lastSequence'
  | 'hostSequence'
  | 'hostReread'
  | 'generation'
  | 'createdAt'
  | 'ending'
  | 'usedAt'
  | 'activeMs'
  | 'waiting'
  | 'checkpoint'
  | 'carriedCalls'
  | 'losses'
  | 'suspendAskedAt'
  | 'usage'
  | 'touched'
> & {
  /** What a run that begins from the checkpoint of another run may have seen there. */
  readonly touched?: RunTouched
}
export type RunChange = Partial<
  Pick<
    RunRow,
    | 'generation'
    | 'sandbox'
    | 'failure'
    | 'outcome'
    | 'startedAt'
    | 'firstEventAt'
    | 'endedAt'
    | 'checkpointAt'
    | 'hostSequence'
    | 'hostReread'
    | 'ending'
    | 'usedAt'
    | 'activeMs'
    | 'checkpoint'
    | 'carriedCalls'
    | 'losses'
    | 'suspendAskedAt'
    | 'usage'
    | 'touched'
  >
> & {
  // `null`: no process drives the run; the run does not wait.
  readonly holder?: string | null
  readonly waiting?: { readonly for: WaitingFor; readonly since: string } | null
}

/**
 * A sandbox claim of a run. The row is written before the request for the sandbox; its ids are added from the response.
 */
export interface ClaimRow {
  readonly namespace: string
  readonly name: string
  readonly generation: number
  readonly runId: string
  readonly keyId: string
  readonly state: 'requested' | 'bound' | 'released'
  readonly uid?: string
  readonly sandboxUid?: string
  readonly podUid?: string
  /** What the provider needs to find and clean the sandbox after a crash, as JSON. */
  readonly handle?: unknown
  readonly createdAt: string
}

export interface TurnRow extends Turn {
  readonly prompt: string
  readonly final: boolean
  readonly ordinal: number
  /** How the turn ended. Absent until then, and in rows of earlier releases. */
  readonly end?: TurnEnd
  /** What the last sandbox was sent, if it is not the prompt: a turn that is sent again has a preface. */
  readonly sentPrompt?: string
  /** The last outcome that the agent reported in this turn. */
  readonly outcome?: TurnOutcome
}

export interface TurnEnd {
  readonly state: 'completed' | 'failed' | 'cancelled'
  /** Why the turn failed. */
  readonly code?: ErrorCode
  readonly message?: string
}

export type TurnOutcome = { readonly outcome: 'succeeded' | 'failed'; readonly summary?: string }

export interface CommandRow {
  readonly id: string
  readonly runId: string
  readonly request: unknown
  /** The requester, as the audit names it; absent in rows of earlier releases. */
  readonly actor?: string
  readonly state: 'running' | 'ended'
  readonly result?: unknown
}

export interface ApprovalRow {
  readonly requestId: string
  readonly runId: string
  readonly callId: string
  readonly kind: 'shell' | 'tool' | 'question'
  readonly tool: string
  /** SHA-256 over the RFC 8785 form of `{runId, tool, request}`. */
  readonly binding: string
  readonly commandHash?: string
  readonly redacted: boolean
  readonly state: 'pending' | 'approved' | 'denied' | 'expired' | 'superseded' | 'answered'
  readonly scope?: 'once' | 'run'
  readonly decidedBy?: string
  readonly reason?: string
  readonly answer?: string
  readonly expiresAt: string
  readonly createdAt: string
}

export interface ApiKeyRow {
  readonly id: string
  /** SHA-256 of the key, hex. */
  readonly hash: string
  readonly owner: string
  readonly role: 'user' | 'operator'
  readonly createdAt: string
}

/** The settings that are in force in one folder, for the runs of one owner. */
export interface TrustedFolder {
  readonly owner: string
  /** The folder's real path. */
  readonly path: string
  /**
   * The content of the settings file when it was accepted; absent if there was no file, in which case the defaults
   * apply.
   */
  readonly settings?: string
  readonly origin: 'first_run' | 'trust'
  readonly trustedAt: string
}

/** The response of a mutation, stored under its idempotency key. */
export type IdempotencyRow = {
  readonly owner: string
  readonly key: string
  /** SHA-256 over method, path and body. */
  readonly fingerprint: string
  readonly status: number
  readonly body: string
  readonly createdAt: string
}

export type IdempotencyKey = Pick<IdempotencyRow, 'owner' | 'key'>

export interface RunFilter {
  readonly owner?: string
  readonly kind?: 'agent' | 'command'
  readonly states?: readonly RunState[]
  /** Created before this time. */
  readonly createdBefore?: string
  /** Return runs after this id in the list's order (newest first). */
  readonly after?: string
  readonly limit: number
}

export type RunCount = { readonly owner?: string; readonly states: readonly RunState[] }

/** Leases of processes that drive runs are named by this and their id. */
export const HOLDER_LEASE = 'holder:'
/** What one transaction may do. Every method sees the writes before it. */
export interface Transaction extends QueueTransaction, CheckpointTransaction {
  insertRun(run: NewRun): Promise<RunRow>
  /** Reads the run and locks it against other writers until the transaction ends, so that the result stays valid. */
  readRun(id: string): Promise<RunRow | undefined>
  /**
   * A new generation starts with host sequence 0 and no events to read again. Within a generation, the host sequence
   * never decreases.
   */
  changeRun(id: string, change: RunChange): Promise<void>
  /** Changes the state, together with other facts; `conflict` if the run is not in the state `from`. */
  changeRunState(
    id: string,
    move: { readonly from: RunState; readonly to: RunState },
    facts?: RunChange,
  ): Promise<void>
  /**
   * Appends events in order, with the next sequences of the run. `host` events carry their generation and host
   * sequence, and are skipped if that pair is already stored. The run's `hostSequence` follows the events of its
   * current generation. Returns the appended events.
   */
  appendEvents(runId: string, events: readonly NewEvent[]): Promise<RunEnvelope[]>
  /** Calls the run's listeners in every process after the commit, as if there were events. */
  announce(runId: string): void
  /** Counts runs. Until the transaction ends, no other transaction can count runs. */
  countRuns(filter: RunCount): Promise<number>

  /**
   * Stores a folder's settings if the owner has none for it yet. Returns the effective settings, which may be others.
   */
  trustFirst(folder: TrustedFolder): Promise<{ readonly folder: TrustedFolder; readonly isFirst: boolean }>

  insertTurn(turn: Omit<TurnRow, 'ordinal'>): Promise<TurnRow>
  /** `sentPrompt`: what the sandbox is sent, if it is not the turn's prompt. */
  changeTurn(id: string, state: Turn['state'], sentPrompt?: string): Promise<void>
  /** Marks a turn as ended and stores how it ended. */
  endTurn(id: string, end: TurnEnd): Promise<void>
  /** Stores what the agent reported in a turn. A later report replaces an earlier one. */
  reportOutcome(turnId: string, outcome: TurnOutcome): Promise<void>
  listTurns(runId: string, states?: readonly Turn['state'][]): Promise<TurnRow[]>
  readTurn(id: string): Promise<TurnRow | undefined>
  /** The last turn that has ended. */
  lastEndedTurn(runId: string): Promise<TurnRow | undefined>

  insertCommand(command: CommandRow): Promise<void>
  /** Ends a running command; the first result stands. */
  endCommand(id: string, result: unknown): Promise<void>
  readCommand(runId: string, id: string): Promise<CommandRow | undefined>
  listRunningCommands(runId: string): Promise<CommandRow[]>

  insertApproval(approval: ApprovalRow): Promise<void>
  /** Changes a pending approval. Returns false if it is no longer pending, because another decision came first. */
  decideApproval(
    requestId: string,
    change: Pick<ApprovalRow, 'state'> & Partial<ApprovalRow>,
  ): Promise<boolean>
  readApproval(runId: string, requestId: string): Promise<ApprovalRow | undefined>
  listApprovals(
    runId: string,
    filter?: { state?: ApprovalRow['state']; commandHash?: string },
  ): Promise<ApprovalRow[]>

  insertCall(call: NewCall): Promise<void>
  /** A call that ends loses its request. */
  changeCall(runId: string, callId: string, change: CallChange): Promise<void>
  readCall(runId: string, callId: string): Promise<CallRow | undefined>
  /** Oldest first. The number of calls that have not ended is bounded, so a list of `ended` calls is not offered. */
  listCalls(runId: string, states: readonly Exclude<CallRow['state'], 'ended'>[]): Promise<CallRow[]>
  /** As `Store.listReleasedCalls`. */
  listReleasedCalls(runId: string, page: ReleasedCalls): Promise<CallRow[]>

  /**
   * Head of a run's audit chain, or of the deployment's (its runId is the empty string); `count` 0 for none.
   * Locks the chain until the transaction ends.
   */
  auditHead(runId: string): Promise<AuditHead>
  /** Appends rows of one chain and makes `head` its head; `conflict` if the rows do not continue the chain. */
  appendAudit(rows: readonly AuditRow[], head: AuditHead): Promise<void>

  /** Stores a response under its key; returns false if the key already has one. */
  insertIdempotencyKey(row: IdempotencyRow): Promise<boolean>
  insertApiKey(row: ApiKeyRow): Promise<void>
  writeSetting(name: string, value: string): Promise<void>

  upsertClaim(claim: ClaimRow): Promise<void>
  readClaim(key: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>): Promise<ClaimRow | undefined>
  changeClaim(
    key: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>,
    change: Partial<ClaimRow>,
  ): Promise<void>
  /**
   * Binds a requested claim to its sandbox. Fails with `identity_mismatch` if the claim's row has no UID or a different
   * UID, or if any other row, in any state, names this sandbox or this pod: both serve only one claim.
   */
  bindClaim(
    key: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>,
    ids: Required<Pick<ClaimRow, 'uid' | 'sandboxUid' | 'podUid'>> & Pick<ClaimRow, 'handle'>,
  ): Promise<void>
}

/**
 * The data of a run that is stored outside its sandbox: the uploaded archive and the session that it begins with, until it
 * has a checkpoint. For a run on a folder of the user: the changes in that folder.
 */
export type BlobName = 'workspace' | 'session' | 'diff' | 'patch' | 'bundle'

export type NewEvent = {
  readonly event: RunEvent
  readonly at?: string
  readonly host?: Pick<HostEnvelope, 'sequence'> & { readonly generation: number }
}

/** The SQL store, one interface over SQLite and PostgreSQL. */
export interface Store extends QueueReads, CheckpointStore {
  readonly engine: 'sqlite' | 'postgres'
  /**
   * Runs `work` in one transaction (SQLite: immediate; PostgreSQL: read committed with the row locks it takes).
   * Commits durably or throws. The store's own methods that write refuse to be called inside `work`.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>

  readRun(id: string): Promise<RunRow | undefined>
  listRuns(filter: RunFilter): Promise<{ items: RunRow[]; next?: string }>
  countRuns(filter: RunCount): Promise<number>
  /** Runs in these states whose holder has no lease any more, or that have none, oldest first. */
  listAbandonedRuns(states: readonly RunState[], limit: number): Promise<RunRow[]>
  /** Events after `after`, oldest first. */
  readEvents(runId: string, after: number, limit: number): Promise<RunEnvelope[]>
  /**
   * Calls back after every commit that appended events to the run, with those events where this process has committed
   * them, which is not always in the order of their numbers. Without events it calls for commits of other processes
   * (PostgreSQL) and now and then for none: then the listener looks for itself. The return value unsubscribes.
   */
  onEvents(runId: string, listener: EventListener): () => void
  listApprovals(runId: string, filter?: { state?: ApprovalRow['state'] }): Promise<ApprovalRow[]>
  /** Pending approvals that expired by `now`, the longest overdue first, at most 500. */
  listExpiredApprovals(now: string): Promise<ApprovalRow[]>
  listClaims(states: readonly ClaimRow['state'][]): Promise<ClaimRow[]>
  /** Calls of the agent that were released to the sandbox, those with the last event first. */
  listReleasedCalls(runId: string, page: ReleasedCalls): Promise<CallRow[]>

  /**
   * Stores a stream as chunks of at most 1 MiB. When the stream is complete, it replaces the run's blob of that name.
   * Fails with `payload_too_large` beyond `maxBytes`; the previous blob then stays.
   */
  writeBlob(
    blob: { runId: string; name: BlobName; maxBytes: number },
    chunks: AsyncIterable<Uint8Array>,
  ): Promise<{ sha256: string; bytes: number }>
  /** `chunks` throws if the content does not match its stored digest, or if the blob is replaced during the read. */
  readBlob(
    runId: string,
    name: BlobName,
  ): Promise<{ sha256: string; bytes: number; chunks: AsyncIterable<Uint8Array> } | undefined>
  deleteBlobs(runId: string): Promise<void>

  readApiKey(hash: string): Promise<ApiKeyRow | undefined>
  countApiKeys(): Promise<number>

  /** The response stored under a key; a response older than 24 h is ignored. */
  readIdempotencyKey(key: IdempotencyKey, now: Date): Promise<IdempotencyRow | undefined>
  /** Stores a response outside a transaction, or replaces the response that a transaction stored. */
  writeIdempotencyKey(row: IdempotencyRow): Promise<void>

  readSetting(name: string): Promise<string | undefined>
  writeSetting(name: string, value: string): Promise<void>

  readTrustedFolder(owner: string, path: string): Promise<TrustedFolder | undefined>
  /** Puts these settings in force, in the place of those that were. */
  writeTrustedFolder(folder: TrustedFolder): Promise<void>
  /** Returns false if the owner does not trust such a folder. */
  deleteTrustedFolder(owner: string, path: string): Promise<boolean>
  /** Most recently trusted first. `after` is the `next` of the previous page. */
  listTrustedFolders(filter: {
    readonly owner: string
    readonly after?: string
    readonly limit: number
  }): Promise<{ items: (Omit<TrustedFolder, 'settings'> & { readonly hasFile: boolean })[]; next?: string }>

  readAudit(query: AuditQuery): Promise<{ items: AuditRow[]; next?: string }>
  /**
   * Reads the current head of a chain without a lock; undefined if the run does not exist. The deployment's chain never
   * ends.
   */
  readAuditHead(runId: string): Promise<(AuditHead & { readonly isEnded: boolean }) | undefined>
  /** The smallest id of a run, or run id in the audit, that is greater than this one. */
  nextAuditChain(among: 'runs' | 'records', after: string): Promise<string | undefined>

  /** Acquires or renews a lease; returns false if another holder has it. */
  acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean>
  releaseLease(name: string, holder: string): Promise<void>

  /** Writes to the database, so that a full disk or a read-only server is found too. */
  ping(): Promise<void>
  close(): Promise<void>
}
