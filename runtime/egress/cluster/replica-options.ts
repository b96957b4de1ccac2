import type { Log } from '../../kit/log.ts'
import type { ProxyIdentity } from '../credentials/proxy-identity.ts'
import type { EgressLimits } from '../limits.ts'
import type { Resolve } from '../look-ups.ts'
import type { UpstreamProxy } from '../upstream-proxy.ts'
import type { ControlPlace } from './control-request.ts'
import type { ReadUserSecret } from './user-vault.ts'

export interface ReplicaOptions extends ControlPlace {
  /** Where clients connect. */
  readonly listen: ReplicaListen
  readonly healthPort: number
  readonly log: Log
  readonly resolve?: Resolve
  /** The company's proxy. */
  readonly upstream?: UpstreamProxy
  /** Roots that a destination's certificate may have. @default the roots of Node */
  readonly roots?: readonly string[]
  readonly drain?: DrainTimes
  readonly limits?: EgressLimits
  /** How long the check of a credential may take. @default 12 s */
  readonly checkMs?: number
  /** How long the control stream may be silent. @default 25 s */
  readonly silenceMs?: number
  /** The Azure identity of the process that inserts credentials. */
  readonly identity?: ProxyIdentity
}

export type ReplicaListen =
  /** For sandboxes. Connections that need a credential are passed on to `brokerPath`. A port of 0 picks a free one. */
  | { readonly port: number; readonly brokerPath?: string | undefined }
  /** As the process that inserts credentials: for the other process of this replica. */
  | { readonly socketPath: string; readonly readSecret?: ReadUserSecret | undefined }

export interface DrainTimes {
  /** New connections still come until every node knows that this replica is leaving. */
  readonly leadMs: number
  /** How long open connections may go on. */
  readonly openMs: number
}
