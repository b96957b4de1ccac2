import type {
  Approval,
  ApproveShell,
  ApproveTool,
  CreateSandbox,
  DenyShell,
  DenyTool,
  ForkRun,
  Readiness,
  Run,
  StartCommand,
  StartedCommand,
  StartRun,
  StartTurn,
  Turn,
} from '../../../contracts/api.ts'
import type { ApiRole } from '../../../contracts/api-keys.ts'
import type { AuditPage, AuditVerification } from '../../../contracts/audit.ts'
import type { Diagnostics } from '../../../contracts/diagnostics.ts'
import type { RunEnvelope } from '../../../contracts/events.ts'
import type { FileOperation } from '../../../contracts/files.ts'
import type { ModelList } from '../../../contracts/models.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import type { ErasedData, OwnerDataLine } from '../../../contracts/owner-data.ts'
import type { PolicyScope, SandboxSettings, SandboxSettingsPatch } from '../../../contracts/policy.ts'
import type { PolicyProposal, ProposalScope, ProposePolicy } from '../../../contracts/policy-proposal.ts'
import type { PushedResults, PushResults } from '../../../contracts/push.ts'
import type { Restriction, RestrictionList, SetRestriction } from '../../../contracts/restrictions.ts'
import type { RunDiff } from '../../../contracts/results.ts'
import type { AllowEgress, AllowedEgress, RunEgress } from '../../../contracts/run-egress.ts'
import type { FileAnswer } from '../../../contracts/toolbox.ts'
import type {
  FolderQuery,
  SettingsComparison,
  TrustedFolder,
  TrustFolder,
} from '../../../contracts/trusted-folders.ts'
import type { Transaction } from '../../store/store.ts'

/** The caller. `people/rights.ts` says what each role may do; a run that a caller may not see does not exist for it. */
export interface Caller {
  readonly owner: string
  readonly role: ApiRole
  /** The API key of the request. Absent with an access token. */
  readonly apiKeyId?: string
  /** The issuer at which this person signed in. Absent with an API key, and for the access token of a program. */
  readonly signedInAt?: string
  /** The trace of the request, if it is traced. */
  readonly traceparent?: string
  /** Stores the answer of a mutation under the request's idempotency key, in the transaction that does the work. */
  readonly keep?: (tx: Pick<Transaction, 'insertIdempotencyKey'>, answer: unknown) => Promise<void>
}

export interface Page<T> {
  readonly items: T[]
  readonly next?: string
}

export type ListRuns = {
  readonly kind: SandboxKind
  readonly limit: number
  readonly after?: string | undefined
}
export type ListFolders = Omit<ListRuns, 'kind'>
export type AuditQuery = {
  readonly limit: number
  readonly after?: string | undefined
  readonly tool?: string | undefined
  readonly decision?: string | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
}
/** `run`: the id of a run, or `deployment`. */
export type OneChain = { readonly run?: string | undefined }
export type ReadEvents = { readonly after: number; readonly limit: number }
export type Subscription = { readonly after: number; readonly signal: AbortSignal }
export type FileRequest = { readonly operation: FileOperation; readonly payload?: Uint8Array }

export type ShellDecision =
  | ({ readonly outcome: 'approved' } & ApproveShell)
  | ({ readonly outcome: 'denied' } & DenyShell)
export type ToolDecision =
  | ({ readonly outcome: 'approved' } & ApproveTool)
  | ({ readonly outcome: 'denied' } & DenyTool)

/**
 * Everything that the API can do, independent of HTTP. Errors are `SandboxError`s. A run of another owner is
 * `not_found`, like a run that does not exist.
 */
export interface RunService {
  /**
   * Takes the store for this process, or for those that share it. `unavailable` where another service has it. Called
   * before the service listens, so that a service without a store is never reachable.
   */
  hold(): Promise<void>
  /** Takes up what an earlier process left; needs `hold`, and nothing else may be called before. */
  start(): Promise<void>
  /** Ends, suspends or hands over active runs, with the corresponding events. */
  close(): Promise<void>

  /** `queue_full`, `too_many_runs`, `workspace_invalid`, `policy_denied`. */
  startRun(caller: Caller, request: StartRun): Promise<Run>
  /**
   * Starts a run with the conversation and the files of another run's last checkpoint. `run_not_ready` or `conflict` if it
   * has none, `forbidden` for an operator who does not own it.
   */
  forkRun(caller: Caller, id: string, request: ForkRun): Promise<Run>
  createSandbox(caller: Caller, request: CreateSandbox): Promise<Run>
  readRun(caller: Caller, id: string): Promise<Run>
  /** Newest first. */
  listRuns(caller: Caller, query: ListRuns): Promise<Page<Run>>

  /** Starts the run that waited for the upload. `conflict` if it does not wait. */
  uploadWorkspace(caller: Caller, id: string, archive: AsyncIterable<Uint8Array>): Promise<Run>
  downloadWorkspace(caller: Caller, id: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>

  /** The changes of a run in its folder. `run_not_ready` until the run ends, `not_found` if there are none. */
  readDiff(caller: Caller, id: string): Promise<RunDiff>
  /** The same as a patch, secrets hidden. */
  readPatch(caller: Caller, id: string): Promise<AsyncIterable<Uint8Array>>
  /** The run's commits as a git bundle. */
  readBundle(caller: Caller, id: string): Promise<AsyncIterable<Uint8Array>>

  /**
   * Pushes the stored commits of a run on a repository to a branch of the run. `run_not_ready` until the run ends, `conflict`
   * with the words of git or of the server, `policy_denied`, `forbidden` for people who contributed to a run that needs
   * another person.
   */
  pushResults(caller: Caller, id: string, wanted: PushResults): Promise<PushedResults>

  startTurn(caller: Caller, id: string, turn: StartTurn): Promise<Turn>
  /**
   * Saves a run that waits, gives its sandbox back, and returns when that is done; `conflict` if the run does not wait.
   * A suspended run stays as it is.
   */
  suspend(caller: Caller, id: string): Promise<Run>
  /** Queues a suspended run for a sandbox; a run that is not suspended stays as it is. */
  resume(caller: Caller, id: string): Promise<Run>
  /** Returns when the run is final or two seconds have passed. */
  cancel(caller: Caller, id: string): Promise<Run>
  destroySandbox(caller: Caller, id: string): Promise<void>

  startCommand(caller: Caller, id: string, command: StartCommand): Promise<StartedCommand>
  cancelCommand(caller: Caller, id: string, commandId: string): Promise<void>
  /** A file operation in the run's sandbox; what the workspace engine refuses is in the answer. */
  file(caller: Caller, id: string, request: FileRequest): Promise<FileAnswer>

  listApprovals(caller: Caller, id: string): Promise<Page<Approval>>
  decideShell(caller: Caller, id: string, decision: ShellDecision): Promise<Approval>
  decideTool(caller: Caller, id: string, decision: ToolDecision): Promise<Approval>
  answerQuestion(
    caller: Caller,
    id: string,
    reply: { readonly requestId: string; readonly answer: string },
  ): Promise<void>

  /** Events after a sequence, oldest first. */
  readEvents(caller: Caller, id: string, query: ReadEvents): Promise<RunEnvelope[]>
  /**
   * Stored events and then new ones without gaps, until `done` or until the signal aborts. Undefined if the run has
   * ended and no event follows. Rejects with `not_found` before the first event. Read page by page at the reader's
   * pace.
   */
  subscribe(caller: Caller, id: string, from: Subscription): Promise<AsyncIterable<RunEnvelope> | undefined>

  /** What the egress proxy refused to the run, grouped, and the hosts that the run reached. */
  readEgress(caller: Caller, id: string): Promise<RunEgress>

  /**
   * Allows a run one host of the operator's egress list that its settings leave out. In force within a second.
   * `policy_denied` for a host that the list or the operator's settings do not have, `conflict` if the run may reach it.
   */
  allowEgress(caller: Caller, id: string, wanted: AllowEgress): Promise<AllowedEgress>

  /** The agents that `startRun` would admit for the caller, and the reason why it would refuse others. */
  listModels(caller: Caller): Promise<ModelList>

  readPolicy(caller: Caller, scope?: PolicyScope): Promise<SandboxSettings>
  replacePolicy(caller: Caller, policy: SandboxSettingsPatch, scope?: PolicyScope): Promise<SandboxSettings>
  mergePolicy(caller: Caller, patch: SandboxSettingsPatch, scope?: PolicyScope): Promise<SandboxSettings>
  /** A change of a repository's settings file that a person applies. `invalid_request` if the policy does not allow it. */
  proposePolicy(caller: Caller, wanted: ProposePolicy, scope?: ProposalScope): Promise<PolicyProposal>

  /** The restrictions in force that the caller may see: of the caller's runs and of all runs, or every one for operators and auditors. */
  listRestrictions(caller: Caller): Promise<RestrictionList>
  /**
   * Restricts runs. In force in this process when it returns, and in the others of the deployment within a second.
   * `forbidden` for runs of others, and for a restriction that an operator has set.
   */
  setRestriction(caller: Caller, wanted: SetRestriction): Promise<Restriction>

  /** Compares the settings in force for the caller's runs in a folder with its settings file. `workspace_invalid`. */
  compareSettings(caller: Caller, folder: FolderQuery): Promise<SettingsComparison>
  /** Puts the folder's file in force for the caller's runs. `conflict` if its digest differs. */
  trustFolder(caller: Caller, folder: TrustFolder): Promise<SettingsComparison>
  /** The next run in the folder is a first one; `not_found`. */
  forgetFolder(caller: Caller, folder: FolderQuery): Promise<void>
  /** The caller's own; the last trusted first. */
  listTrustedFolders(caller: Caller, query: ListFolders): Promise<Page<TrustedFolder>>

  /** Every audit record, oldest first, for operators and auditors; `forbidden`. */
  /** `forbidden` for the data of others, except for operators and auditors. */
  exportData(caller: Caller, owner: string): Promise<AsyncIterable<OwnerDataLine>>
  /**
   * Erases an owner; yields its progress. `forbidden` except for operators, `conflict` while a run of the owner has not ended or a
   * sandbox of one is still being deleted.
   */
  eraseData(caller: Caller, owner: string): Promise<AsyncIterable<ErasedData>>
  readAudit(caller: Caller, query: AuditQuery & OneChain): Promise<AuditPage>
  readRunAudit(caller: Caller, id: string, query: AuditQuery): Promise<AuditPage>
  /**
   * Checks every chain, or the chain of one run, against the deployment's chain. `forbidden`. Sends reports until it is
   * complete.
   */
  verifyAudit(caller: Caller, only: OneChain): Promise<AsyncIterable<AuditVerification>>

  /** `forbidden` except for operators and auditors. */
  readDiagnostics(caller: Caller): Promise<Diagnostics>

  ready(): Promise<Readiness>
  /** Prometheus text format. */
  metrics(): Promise<string>
}
