import type { Isolation } from '../../../contracts/exec.ts'
import type { Decision, RunPhase, SandboxSettings } from '../../../contracts/policy.ts'
import type { ModelSettings } from '../../agents/kind.ts'
import type { Log } from '../../kit/log.ts'
import type { SandboxProvider } from '../../sandboxes/provider.ts'
import type { RunEnding } from '../../store/columns.ts'
import type { RunRow, RunTouched, Store } from '../../store/store.ts'
import type { SecretPurge } from '../credentials/user-vault.ts'
import type { DeploymentKeys } from '../keys/deployment-keys.ts'
import type { ProcessMetrics } from '../metrics/process-metrics.ts'
import type { WorkspaceBounds } from './admit/workspace-admission.ts'
import type { RunRedactor } from './ingest/redacted-events.ts'
import type { Restrictions } from './restrictions/restrictions.ts'
import type { RunFolders } from './results/run-folders.ts'
import type { RunNetworks } from './use/run-networks.ts'

/** What governance must know of a sandbox; no sandbox isolates nothing. */
export type SandboxFacts = Pick<Isolation, 'isRealIsolation' | 'shell'>

/** Governance of one run, as the control plane applies it; it remembers what the run has touched. */
export type RunGovernance = {
  /** `phase`: `work` unless given. */
  readonly decide: (call: AgentCall, sandbox: SandboxFacts, phase?: RunPhase) => Decision
  /** Records a released call, and later its result. */
  readonly observe: (call: AgentCall, content?: string) => void
  /** Stored with the run, so that its next driver starts with it. */
  readonly touched: RunTouched
}

export type AgentCall = { readonly tool: string; readonly arguments: unknown }

/** Governance over the deployment's policy files. */
export type ControlGovernance = {
  readonly version: (settings: SandboxSettings) => string
  readonly forRun: (settings: SandboxSettings, touched: RunTouched) => RunGovernance
}

export type RunLimits = {
  readonly maxRuns: number
  readonly maxRunsPerOwner: number
  readonly maxSuspendedPerOwner: number
  /** An owner that stores more cannot start a run, and cannot save one. */
  readonly maxStoredBytesPerOwner: number
  /** Runs that wait for a place: in the deployment, and of one owner. */
  readonly maxQueued: number
  readonly maxQueuedPerOwner: number
  /** Sandboxes that this process starts at the same time. */
  readonly maxLaunches: number
  /** A run that waits longer for its first sandbox fails. */
  readonly queueTimeoutMs: number
  readonly approvalTtlMs: number
  readonly idleTimeoutMs: number
  /** A run that waits this long is suspended; undefined: only on request. */
  readonly suspendAfterMs: number | undefined
  /** Time between two checkpoints in the middle of a turn. */
  readonly checkpointEveryMs: number
  /** A run that is suspended for this long ends. */
  readonly suspendedRetentionMs: number
  readonly stallTimeoutMs: number
  readonly runTimeoutMs: number
  /** An upload that has not come by then fails the run. */
  readonly uploadTimeoutMs: number
}

/** The egress proxy, as the way of agents to their models. */
export interface ModelProxy {
  /** Base URL for agents. Undefined if they connect to their model servers themselves. Throws `unavailable` if the proxy does not run. */
  url(): Promise<string | undefined>
  /** Whether the agent of a run calls its model through the proxy, which then counts the requests and their tokens. */
  routes(run: Pick<RunRow, 'agentSpec' | 'owner'>): boolean
  /** Throws `unavailable` if the proxy does not run. Absent if agents that connect themselves do not need the proxy. */
  requireRunning?(): Promise<void>
}

export type RunDeps = {
  readonly store: Store
  readonly provider: SandboxProvider
  readonly keys: DeploymentKeys
  readonly governance: ControlGovernance
  readonly models: ModelSettings
  /** Absent if agents connect to their model servers themselves. */
  readonly modelProxy?: ModelProxy
  /** Calls back when a budget that the proxy counts is used up, with the stored end of the run. Absent without a proxy. */
  readonly onModelBudgetSpent?: (listener: (runId: string, ending: RunEnding) => void) => void
  readonly limits: RunLimits
  /** Where workspaces of kind `path` may lie; real paths. */
  readonly workspaces: WorkspaceBounds
  /** Folders of the user that runs work on; absent where sandboxes are elsewhere. */
  readonly folders?: RunFolders
  /** What no caller and no repository can widen. */
  readonly ceiling: SandboxSettings
  /** The restrictions in force. */
  readonly restrictions: Restrictions
  /** Deletes the secrets of an owner outside the store. Returns when the last one is purged. Absent if there can be none. */
  readonly eraseSecrets?: (owner: string) => Promise<SecretPurge | undefined>
  /** Absent without an egress proxy. */
  readonly networks?: RunNetworks
  /** The second redaction, of one run: nothing that a sandbox sent is stored before it. */
  readonly openRedactor: (run: Pick<RunRow, 'owner' | 'settings'>) => RunRedactor
  /** Redacts the message of a failure, because a sandbox or a model's server may have written it. */
  readonly redactText: (text: string) => string
  /** Hides secrets in the results of a run. */
  readonly redactResult: (text: string, run: Pick<RunRow, 'owner' | 'settings'>) => string
  readonly clock: () => Date
  readonly log: Log
  /** @default nothing is measured */
  readonly metrics?: ProcessMetrics
  /** A command started this service for one run: it drives only runs that it started, and they end with it. */
  readonly isTemporary?: boolean
  /** The name of this process as the driver of runs. It begins to drive none while the lease of its name is lost. */
  readonly holder: { readonly id: string; readonly isLost?: boolean }
}
