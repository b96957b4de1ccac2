import type * as z from 'zod'
import type { EgressPod } from '../../contracts/egress.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { AllowedHosts, RunSettings, RunSetup } from './columns.ts'
import type { CredentialCheckStore } from './credential-checks.ts'
import type { PushedBranch, PushingRun, PushReads, PushTransaction } from './pushes.ts'
import type { ReservationTransaction } from './reservations.ts'

/** A sandbox whose commands have network access through the egress proxy of the cluster. */
export interface OpenNetwork {
  readonly runId: string
  readonly generation: number
  readonly kind: SandboxKind
  readonly pod: EgressPod
}

/** With the owner and the settings of its run, and what people allowed to it. */
export type LiveNetwork = OpenNetwork &
  PushingRun & {
    /** What the run has pushed, or the run whose result it pushes. */
    readonly pushed: readonly PushedBranch[]
    readonly owner: string
    readonly settings: z.infer<typeof RunSettings>
    readonly allowedHosts: z.infer<typeof AllowedHosts>
    readonly agentSpec: unknown
    readonly setup?: RunSetup
  }

export interface EgressReads extends PushReads, CredentialCheckStore {
  /** The open networks of runs that neither have ended nor are to end. */
  listNetworks(): Promise<LiveNetwork[]>
  /** Replicas of the proxy that followed the control stream of any process within the last `ms`. */
  countProxies(ms: number): Promise<number>
  openNetwork(network: OpenNetwork): Promise<void>
  closeNetwork(key: Pick<OpenNetwork, 'runId' | 'generation'>): Promise<void>
  /** Records that a replica follows a control stream, or that its stream has ended. */
  noteProxy(proxy: string, isConnected: boolean): Promise<void>
}

export interface EgressTransaction extends ReservationTransaction, PushTransaction {
  /** Bytes of a run that replicas of the proxy have taken. The row of the run must be locked. */
  readTakenBytes(runId: string): Promise<number>
  writeTakenBytes(runId: string, bytes: number): Promise<void>
  /** Records the number of a report. Returns false if a report with this or a later number of the replica was recorded before. */
  acceptReport(proxy: string, number: number): Promise<boolean>
}
