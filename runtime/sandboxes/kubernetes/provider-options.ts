import type { SandboxKind } from '../../../contracts/names.ts'
import type { Log } from '../../kit/log.ts'
import type { Lifetime } from './claims/extend-claim.ts'
import type { KubeConnection } from './client/kube-connection.ts'
import type { WatchTiming } from './client/shared-watch.ts'
import type { TransportOptions } from './client/transport.ts'

export type KubernetesProviderOptions = {
  readonly connect: () => Promise<KubeConnection>
  readonly namespace: string
  readonly pool: (kind: SandboxKind) => string
  readonly serviceAccount: (kind: SandboxKind) => string
  /** Label value that separates our claims from the claims of other deployments. */
  readonly deploymentId: string
  /** The runtime class that every pod must have; undefined if the environment requires no hard isolation. */
  readonly runtimeClass: string | undefined
  readonly agentHostPort: number
  readonly timing: ProviderTiming
  readonly clock: () => Date
  readonly log: Log
}

export type ProviderTiming = {
  readonly transport: TransportOptions
  readonly watch: WatchTiming
  readonly lifetime: Lifetime
  readonly startMs: number
  /** A watch that has not shown a known change after this time is restarted. */
  readonly suspectAfterMs: number
  /** Includes the deletion of dependents and the pod's grace period. */
  readonly deleteMs: number
  readonly unreadyMs: number
  readonly checkEveryMs: number
}
