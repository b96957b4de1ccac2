import type * as z from 'zod'
import type { HostEnvelope, RunEnvelope, RunEvent } from '../../contracts/events.ts'
import type { ApiKeyStore, ApiKeyTransaction } from './api-key-store.ts'
import type { AuditHead, AuditReads, AuditRow } from './audit-rows.ts'
import type { Again, StoredBlob } from './blob-store.ts'
import type { CallChange, CallRow, NewCall, ReleasedCalls } from './call-row.ts'
import type { Checkpoint, CheckpointStore, CheckpointTransaction, RunOrigin } from './checkpoint.ts'
import type * as columns from './columns.ts'
import type { ContributionTransaction } from './contributions.ts'
import type { EgressReads, EgressTransaction } from './egress.ts'
import type { ErasureStore, ErasureTransaction } from './erasure-store.ts'
import type { EventListener } from './event-listeners.ts'
import type { EventReads } from './event-reads.ts'
import type { FigureReads } from './figures.ts'
import type { IdempotencyStore } from './idempotency-store.ts'
import type { PushingRun } from './pushes.ts'
import type { QueueReads, QueueTransaction } from './queue.ts'
import type { RestrictionReads, RestrictionTransaction } from './restriction-store.ts'
import type { IdempotencyRow, TrustedFolder } from './service-rows.ts'
import type { TrustedFolderStore } from './trusted-folder-store.ts'
import type { UserCredentialStore, UserCredentialTransaction } from './user-credential-store.ts'

export type RunState = z.infer<typeof columns.RunStates>
type RunMove = { readonly from: RunState; readonly to: RunState }

/** A run as the store keeps it. Optional members are absent until they have a value. */
export interface RunRow extends PushingRun {
  readonly id: string
  readonly kind: z.infer<typeof columns.RunKinds>
  readonly owner: string
  readonly state: RunState
  readonly task: string
  readonly workspace: z.infer<typeof columns.Workspaces>
  /** The request that started the run, as W3C Trace Context has it. Absent if it was not traced. */
  readonly traceparent?: string
  /** The agent as callers see it. */
  readonly agent: z.infer<typeof columns.RunAgent>
  /** The requested agent, without any credential. `null` for a sandbox without an agent. */
  readonly agentSpec: columns.Json
  readonly labels: z.infer<typeof columns.RunLabels>
  readonly interactive: boolean
  readonly generation: number
  readonly sandbox?: z.infer<typeof columns.RunSandbox>
  /** The run from whose checkpoint this run began. */
  readonly source?: RunOrigin
  /** Why the run failed. */
  readonly failure?: z.infer<typeof columns.RunFailure>
  /** The last outcome that the agent reported. */
  readonly outcome?: z.infer<typeof columns.Outcome>
  /** Set while the state is `waiting`, `suspending` or `suspended`. */
  readonly waiting?: z.infer<typeof columns.Waiting>
  readonly lastSequence: number
  readonly createdAt: string
  readonly startedAt?: string
  readonly firstEventAt?: string
  readonly endedAt?: string
  /** When the checkpoint was saved. */
  readonly checkpointAt?: string
  /** Settings in force for this run, after ceiling, policy and request. */
  readonly settings: z.infer<typeof columns.RunSettings>
  /** Hosts of the operator's egress list that people allowed to this run, although its settings leave them out. */
  readonly allowedHosts: z.infer<typeof columns.AllowedHosts>
  readonly policyVersion: string
  readonly keyId: string
  /** Last host sequence of the current generation that is committed here. */
  readonly hostSequence: number
  /** How many of the events up to there a new driver reads again, since text of theirs was held back. */
  readonly hostReread: number
  /** The process that drives the run. No other process may write the run's progress. */
  readonly holder?: string
  /** How the run is to end, once that is decided; its driver may be another process. */
  readonly ending?: columns.RunEnding
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
  /** Absent if the setup commands of the run have not begun, or if it has none. */
  readonly setup?: columns.RunSetup
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

/** `wall_seconds`: as of the last report. The exact value follows from the start of the run. */
export type RunUsage = z.infer<typeof columns.Usage>

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
  | 'agentSpec'
  | 'allowedHosts'
  | 'setup'
> & {
  readonly agentSpec: unknown
  /** What the source of a run has read, for a run that begins from a checkpoint. */
  readonly touched?: RunTouched
}
export type RunChange = Partial<
  Pick<
    RunRow,
    | 'generation'
    | 'workspace'
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
    | 'allowedHosts'
    | 'setup'
  >
> & {
  // `null`: no process drives the run; the run does not wait.
  readonly holder?: string | null
  readonly waiting?: { readonly for: z.infer<typeof columns.Waiting>['for']; readonly since: string } | null
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
  readonly state: z.infer<typeof columns.ClaimStates>
  readonly uid?: string
  readonly sandboxUid?: string
  readonly podUid?: string
  /** What the provider needs to find and clean the sandbox after a crash, as JSON. */
  readonly handle?: columns.Json
  readonly createdAt: string
}

export type NewClaim = Omit<ClaimRow, 'handle'> & { readonly handle?: unknown }

export interface TurnRow {
  readonly id: string
  readonly runId: string
  readonly state: z.infer<typeof columns.TurnStates>
  readonly prompt: string
  readonly final: boolean
  readonly ordinal: number
  /** How the turn ended. Absent until then. */
  readonly end?: TurnEnd
  /** What the last sandbox was sent, if it is not the prompt: a turn that is sent again has a preface. */
  readonly sentPrompt?: string
  /** The last outcome that the agent reported in this turn. */
  readonly outcome?: TurnOutcome
}

/** `code`, `message`: why the turn failed. */
export type TurnEnd = Readonly<z.infer<typeof columns.TurnEnds>>
export type TurnOutcome = Readonly<z.infer<typeof columns.Outcome>>

export interface CommandRow {
  readonly id: string
  readonly runId: string
  readonly request: columns.Json
  /** The requester, as the audit names it; absent in rows of earlier releases. */
  readonly actor?: string
  readonly state: z.infer<typeof columns.CommandStates>
  readonly result?: columns.Json
}

export type NewCommand = Omit<CommandRow, 'request' | 'result'> & {
  readonly request: unknown
  readonly result?: unknown
}

export interface ApprovalRow {
  readonly requestId: string
  readonly runId: string
  readonly callId: string
  readonly kind: z.infer<typeof columns.ApprovalKinds>
  readonly tool: string
  /** SHA-256 over the RFC 8785 form of `{runId, tool, request}`. */
  readonly binding: string
  readonly commandHash?: string
  readonly redacted: boolean
  readonly state: z.infer<typeof columns.ApprovalStates>
  readonly scope?: z.infer<typeof columns.ApprovalScopes>
  readonly decidedBy?: string
  readonly reason?: string
  readonly answer?: string
  readonly expiresAt: string
  readonly createdAt: string
}

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

/** A run and the process that drives it. */
export type Held = Pick<RunRow, 'id' | 'holder'>

export type RunCount = { readonly owner?: string; readonly states: readonly RunState[] }

/** What one transaction may do. Every method sees the writes before it. */
export interface Transaction
  extends ApiKeyTransaction,
    ContributionTransaction,
    QueueTransaction,
    CheckpointTransaction,
    EgressTransaction,
    ErasureTransaction,
    RestrictionTransaction,
    UserCredentialTransaction {
  insertRun(run: NewRun): Promise<RunRow>
  /** Reads the run and locks it against other writers until the transaction ends, so that the result stays valid. */
  readRun(id: string): Promise<RunRow | undefined>
  /**
   * A new generation starts with host sequence 0 and no events to read again. Within a generation, the host sequence
   * never decreases.
   */
  changeRun(id: string, change: RunChange): Promise<void>
  /** Changes the state, together with other facts; `conflict` if the run is not in the state `from`. */
  changeRunState(id: string, move: RunMove, facts?: RunChange): Promise<void>
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

  /** Stores a folder's settings if the owner has none for it yet. Returns those in force, which may be others. */
  trustFirst(folder: TrustedFolder): Promise<{ readonly folder: TrustedFolder; readonly isFirst: boolean }>

  insertTurn(turn: Omit<TurnRow, 'ordinal'>): Promise<TurnRow>
  /** `sentPrompt`: what the sandbox is sent, if it is not the turn's prompt. */
  changeTurn(id: string, state: TurnRow['state'], sentPrompt?: string): Promise<void>
  /** Marks a turn as ended and stores how it ended. */
  endTurn(id: string, end: TurnEnd): Promise<void>
  /** Stores what the agent reported in a turn. A later report replaces an earlier one. */
  reportOutcome(turnId: string, outcome: TurnOutcome): Promise<void>
  listTurns(runId: string, states?: readonly TurnRow['state'][]): Promise<TurnRow[]>
  readTurn(id: string): Promise<TurnRow | undefined>
  /** The last turn that has ended. */
  lastEndedTurn(runId: string): Promise<TurnRow | undefined>

  insertCommand(command: NewCommand): Promise<void>
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
  readSetting(name: string): Promise<string | undefined>
  writeSetting(name: string, value: string): Promise<void>

  upsertClaim(claim: NewClaim): Promise<void>
  readClaim(key: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>): Promise<ClaimRow | undefined>
  changeClaim(
    key: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>,
    change: Partial<NewClaim>,
  ): Promise<void>
  /**
   * Binds a requested claim to its sandbox. Fails with `identity_mismatch` if the claim's row has no UID or a different
   * UID, or if any other row, in any state, names this sandbox or this pod: both serve only one claim.
   */
  bindClaim(
    key: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>,
    ids: Required<Pick<ClaimRow, 'uid' | 'sandboxUid' | 'podUid'>> & Pick<NewClaim, 'handle'>,
  ): Promise<void>
}

/**
 * The data of a run that is stored outside its sandbox: the uploaded archive and the session that it begins with, until it
 * has a checkpoint. From then on the archive is the `base` of the run's diff. Of results: the changes, the patch, the commits.
 */
export type BlobName = 'workspace' | 'base' | 'session' | 'diff' | 'patch' | 'bundle'

export type NewEvent = {
  readonly event: RunEvent
  readonly at?: string
  readonly host?: Pick<HostEnvelope, 'sequence'> & { readonly generation: number }
}

/** The SQL store, one interface over SQLite and PostgreSQL. */
export interface Store
  extends ApiKeyStore,
    IdempotencyStore,
    QueueReads,
    CheckpointStore,
    EgressReads,
    ErasureStore,
    RestrictionReads,
    AuditReads,
    TrustedFolderStore,
    UserCredentialStore,
    FigureReads,
    EventReads {
  readonly engine: 'sqlite' | 'postgres'
  /**
   * Runs `work` in one transaction (SQLite: immediate; PostgreSQL: read committed with the row locks it takes).
   * Commits durably or throws. The store's own methods that write refuse to be called inside `work`.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>

  readRun(id: string): Promise<RunRow | undefined>
  /** Leaves out runs whose row is damaged, and logs them: they must not hide the other runs. */
  listRuns(filter: RunFilter): Promise<{ items: RunRow[]; next?: string }>
  countRuns(filter: RunCount): Promise<number>
  /** Runs in these states whose holder has no lease any more, or that have none, oldest first. */
  listAbandonedRuns(states: readonly RunState[], limit: number): Promise<Held[]>
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
  /**
   * `chunks` throws if the content does not match its stored digest, or if the blob is replaced during the read. `again` does
   * each query of the iteration.
   */
  readBlob(runId: string, name: BlobName, again?: Again): Promise<StoredBlob | undefined>
  deleteBlobs(runId: string): Promise<void>

  readSetting(name: string): Promise<string | undefined>
  writeSetting(name: string, value: string): Promise<void>

  /** Acquires or renews a lease; returns false if another holder has it. */
  acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean>
  releaseLease(name: string, holder: string): Promise<void>

  /** Writes to the database, so that a full disk or a read-only server is found too. */
  ping(): Promise<void>
  close(): Promise<void>
}
