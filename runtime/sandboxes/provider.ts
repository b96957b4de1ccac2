import type { HostEvent } from '../../contracts/events.ts'
import type { Isolation } from '../../contracts/exec.ts'
import type { HostHealth } from '../../contracts/host-health.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { AgentHostAddress } from '../agent-host-client/connection.ts'

/** How the API gets a sandbox. A sandbox serves one run and is destroyed; nothing returns to a pool. */
export interface SandboxProvider {
  readonly name: 'local' | 'kubernetes'
  /** Where its claims are: with their names and generations the key of their rows in the store. */
  readonly namespace: string
  /** Proves that the provider can work here; throws `isolation_unavailable` with what to do. */
  start(): Promise<void>
  /** Whether it can be used now, part by part; absent where that cannot change while it runs. */
  checks?(): readonly ProviderCheck[]
  /** What the store must keep before the claim is made, so that it is found wherever this process dies. */
  draft(claimName: string): unknown
  claim(request: ClaimRequest): Promise<BoundSandbox>
  /** Cleans up after a claim that failed or is an earlier process's, known by the handle that its row kept. */
  collect(handle: unknown): Promise<void>
  /** The claims of this deployment, whoever made them; absent where sandboxes end with their process. */
  readonly claims?: DeploymentClaims
  /** Where any process may serve a sandbox that another one claimed; absent where sandboxes are one process's own. */
  readonly shared?: SharedSandboxes
  close(): Promise<void>
}

export interface ProviderCheck {
  readonly name: string
  readonly ok: boolean
  /** For whoever reads why a service is not ready, which needs no key. */
  readonly detail: string
}

export interface DeploymentClaims {
  /** Calls back when there may be room for one more. The return value unsubscribes. */
  onRoom(listener: () => void): () => void
  list(): Promise<FoundClaim[]>
  /**
   * Deletes exactly this claim and waits until it is gone with everything that belongs to it. False where it was gone
   * already.
   */
  remove(claim: FoundClaim): Promise<boolean>
}

export interface FoundClaim {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  readonly createdAt: Date
}

/** Sandboxes that outlive the process which claimed them. */
export interface SharedSandboxes {
  /** Takes over a bound sandbox. The same chain is proven again; `sandbox_lost` where it is not what was bound. */
  attach(request: AttachRequest): Promise<BoundSandbox>
  /** Proves the chain, and no more: for a process that uses what another one keeps. */
  locate(request: AttachRequest): Promise<LocatedSandbox>
}

export type LocatedSandbox = Pick<BoundSandbox, 'address' | 'isolation' | 'instanceId'>

/** A bound sandbox as its row has it. */
export interface AttachRequest {
  readonly claimName: string
  readonly kind: SandboxKind
  readonly handle: unknown
  readonly uids: BoundSandbox['uids']
  readonly signal: AbortSignal
}

export interface ClaimRequest {
  readonly claimName: string
  readonly runId: string
  readonly generation: number
  readonly kind: SandboxKind
  /** What `draft` answered; it is in the store. */
  readonly handle: unknown
  /** Keeps the UID that the claim was given; a claim whose UID is not kept is never used. */
  readonly onPosted: (claimUid: string) => Promise<void>
  /** Called, where there is time for it, with what the claim will most likely get; another is told by another call. */
  readonly onForeseen?: (sandbox: ForeseenSandbox) => void
  readonly signal: AbortSignal
}

/** A sandbox that the claim is about to get, and may still not get: nothing is to be told it. */
export type ForeseenSandbox = Pick<BoundSandbox, 'instanceId' | 'workingDirectory'>

export type SandboxWarning = Extract<HostEvent, { type: 'sandbox.warning' }>['data']

/** A sandbox that is bound to a run and waits to be configured. */
export interface BoundSandbox {
  readonly namespace: string
  readonly claimName: string
  readonly podName: string
  /** Each names one object for ever, and no two sandboxes share one. */
  readonly uids: { readonly claim: string; readonly sandbox: string; readonly pod: string }
  /** Audience of the ticket and an input of the turn token. */
  readonly instanceId: string
  readonly launch: 'warm' | 'cold'
  readonly bindMs: number
  readonly isolation: Isolation
  /** Whether the sandbox itself has to add to the reason how it isolates commands: no other knows. */
  readonly isDescribedByHost: boolean
  readonly warnings: readonly SandboxWarning[]
  /** What it says of itself, where it was asked ahead; undefined where nothing came of that. */
  readonly health?: Promise<HostHealth | undefined>
  /** Where its AgentHost listens. */
  readonly address: AgentHostAddress
  /** Absolute path of the workspace as AgentHost must be told. */
  readonly workingDirectory: (workspacePath: string | undefined) => string
  /** Plain data from which `collect` can clean up after a crash. */
  readonly handle: unknown
  /** Settles when the sandbox is gone, with why. */
  readonly lost: Promise<string>
  /**
   * Looks once, now, whether the sandbox is gone, and answers how; undefined where it is there. Absent where `lost`
   * is never behind.
   */
  howLost?(signal: AbortSignal): Promise<string | undefined>
  /** Leaves the sandbox as it is: another process drives its run. Nothing of it is watched or extended any longer. */
  detach(): void
  /** Destroys the sandbox with everything in it and waits until it is gone. */
  release(reason: string): Promise<void>
}
