import type { RunEvent } from '../../../contracts/events.ts'
import type { Decision, RunPhase, SandboxSettings } from '../../../contracts/policy.ts'
import type { Log } from '../../kit/log.ts'
import type { SandboxProvider } from '../../sandboxes/provider.ts'
import type { Store } from '../../store/store.ts'
import type { DeploymentKeys } from '../keys/deployment-keys.ts'

/** Facts that governance needs beside the request. */
export type GateFacts = {
  readonly isRealIsolation: boolean
  readonly phase: RunPhase
  readonly touched: { readonly secret: boolean }
}

/** Governance as the control plane uses it, bound to the deployment's policy files. */
export type ControlGovernance = {
  readonly version: (settings: SandboxSettings) => string
  readonly decide: (
    settings: SandboxSettings,
    call: { tool: string; arguments: unknown },
    facts: GateFacts,
  ) => Decision
  /** Whether a released call leaves the run in touch with secrets. */
  readonly touchesSecret: (call: { tool: string; arguments: unknown }) => boolean
}

/** Where models live; the operator's, never the caller's. */
export type ModelConfig = {
  readonly openaiBaseUrl?: string
  readonly openaiApiKey?: string
  readonly copilotToken?: string
}

export type RunLimits = {
  readonly maxRuns: number
  readonly maxRunsPerOwner: number
  readonly approvalTtlMs: number
  readonly idleTimeoutMs: number
  readonly stallTimeoutMs: number
  readonly runTimeoutMs: number
  /** An upload that has not come by then fails the run. */
  readonly uploadTimeoutMs: number
}

export type RunDeps = {
  readonly store: Store
  readonly provider: SandboxProvider
  readonly keys: DeploymentKeys
  readonly governance: ControlGovernance
  readonly models: ModelConfig
  readonly limits: RunLimits
  /** Folders under which a run may name a workspace; real paths. */
  readonly workspaceRoots: readonly string[]
  /** What no caller and no repository can widen. */
  readonly ceiling: SandboxSettings
  /** The second redaction: nothing that a sandbox sent is stored before it. */
  readonly redact: (event: RunEvent, settings: SandboxSettings) => RunEvent
  readonly clock: () => Date
  readonly log: Log
}
