import type { Pool } from '../../contracts/diagnostics.ts'
import type { HostEvent } from '../../contracts/events.ts'
import type { Isolation } from '../../contracts/exec.ts'
import type { HostHealth } from '../../contracts/host-health.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { AgentHostClient } from '../agent-host-client/client.ts'
import type { AgentHostAddress } from '../agent-host-client/connection.ts'

/** How the API gets a sandbox. A sandbox serves one run and is destroyed; nothing returns to a pool. */
export interface SandboxProvider {
  readonly name: 'local' | 'kubernetes'
  /** Namespace of the claims. Together with name and generation it is the key of a claim's row in the store. */
  readonly namespace: string
  /** Checks that the provider can work here. Throws `isolation_unavailable` with a remedy. */
  start(): Promise<void>
  /** Current health per component. Absent if the health cannot change at run time. */
  checks?(): readonly ProviderCheck[]
  /** The sandboxes that wait for runs or serve one. */
  pools(): readonly Pool[]
  /** Data to store before the claim is created, so that the claim can be found if this process dies. */
  draft(claimName: string): unknown
  claim(request: ClaimRequest): Promise<BoundSandbox>
  /** Cleans up after a failed claim or a claim of an earlier process, by the handle in its row. */
  collect(handle: unknown): Promise<void>
  /** All claims of this deployment. Absent if sandboxes end with their process. */
  readonly claims?: DeploymentClaims
  /** Present if one process can serve a sandbox that another process claimed. */
  readonly shared?: SharedSandboxes
  /** Verifies the identities of pods. Absent if sandboxes are no pods. */
  readonly identities?: PodIdentities
  close(): Promise<void>
}

export interface PodIdentities {
  /** Verifies a token of a service account for this audience. Throws if it is not valid. */
  verify(token: string, audience: string): Promise<ServiceAccountToken>
}

export interface ServiceAccountToken {
  readonly subject: string
  readonly expiresAt: Date
}

export interface ProviderCheck {
  readonly name: string
  readonly ok: boolean
  /** Shown by the readiness route, which needs no API key. */
  readonly detail: string
}

export interface DeploymentClaims {
  /** Calls back when there may be capacity for another sandbox. The return value unsubscribes. */
  onRoom(listener: () => void): () => void
  list(): Promise<FoundClaim[]>
  /**
   * Deletes exactly this claim and waits until the claim and its dependents are gone. Returns false if it did not exist
   * any more.
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
  /** Takes over a bound sandbox after verifying its identity again. Throws `sandbox_lost` if it is another one. */
  attach(request: AttachRequest): Promise<BoundSandbox>
  /** Only verifies the identity, for a process that uses a sandbox which another process drives. */
  locate(request: AttachRequest): Promise<LocatedSandbox>
}

export type LocatedSandbox = Pick<BoundSandbox, 'address' | 'isolation' | 'instanceId'>

/** A bound sandbox, as stored in its row. */
export interface AttachRequest {
  readonly claimName: string
  readonly runId: string
  readonly generation: number
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
  /** The return value of `draft`, which the caller has stored. */
  readonly handle: unknown
  /** Stores the claim's UID. The sandbox is not used before this has succeeded. */
  readonly onPosted: (claimUid: string) => Promise<void>
  /** Called with the sandbox that the claim will probably get, and again if that changes. May not be called at all. */
  readonly onForeseen?: (sandbox: ForeseenSandbox) => void
  readonly signal: AbortSignal
}

/** A sandbox that the claim will probably get. It is not verified yet, so nothing secret may be sent to it. */
export type ForeseenSandbox = Pick<BoundSandbox, 'instanceId' | 'workingDirectory'>

export type SandboxWarning = Extract<HostEvent, { type: 'sandbox.warning' }>['data']

/** A sandbox that is bound to a run and waits to be configured. */
export interface BoundSandbox {
  readonly namespace: string
  readonly claimName: string
  readonly podName: string
  /** A UID is never reused, and no two sandboxes share one. */
  readonly uids: { readonly claim: string; readonly sandbox: string; readonly pod: string }
  /** Audience of the ticket and input of the bearer token's derivation. */
  readonly instanceId: string
  readonly launch: 'warm' | 'cold'
  readonly bindMs: number
  readonly isolation: Isolation
  /** Whether only the sandbox knows how it isolates commands, so that its own reason must be added. */
  readonly isDescribedByHost: boolean
  readonly warnings: readonly SandboxWarning[]
  /** The health of AgentHost, if it was read ahead. Resolves to undefined if that failed. */
  readonly health?: Promise<HostHealth | undefined>
  /** Where its AgentHost listens. */
  readonly address: AgentHostAddress
  /** Where its commands look for the egress proxy of this machine. Absent in a pod. */
  readonly egressSocket?: string
  /** The addresses of its pod. Absent on this machine. */
  readonly podAddresses?: readonly string[]
  /** Gives its commands their way to the network, once the sandbox is configured. Absent if they have it, or none. */
  openNetwork?(client: AgentHostClient): Promise<void>
  /** Absolute path of the workspace for AgentHost's configuration. */
  readonly workingDirectory: (workspacePath: string | undefined) => string
  /** JSON data from which `collect` can clean up after a crash. */
  readonly handle: unknown
  /** Resolves with the reason when the sandbox is gone. */
  readonly lost: Promise<string>
  /**
   * Checks now whether the sandbox is gone and returns the reason, or undefined if it exists. Absent if `lost` is always
   * up to date.
   */
  howLost?(signal: AbortSignal): Promise<string | undefined>
  /** Stops watching and extending the sandbox without deleting it, because another process takes over. */
  detach(): void
  /** Deletes the sandbox and waits until it is gone. */
  release(reason: string): Promise<void>
}
