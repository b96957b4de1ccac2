import type { Range } from './address.ts'
import type { Protocol, RuleRef } from './model.ts'
import type { Selector } from './selector.ts'

export type Direction = 'ingress' | 'egress'

/** Whom a rule is about at the other end. */
export type PeerMatch =
  | { readonly kind: 'selector'; readonly selector: Selector }
  | { readonly kind: 'range'; readonly range: Range; readonly except: readonly Range[] }
  | { readonly kind: 'names'; readonly matches: (name: string) => boolean }

/** One port, or a range of ports, of one protocol. */
export interface PortMatch {
  readonly protocol: Exclude<Protocol, 'ICMP'>
  readonly first: number
  readonly last: number
  /** A port by its name; then the numbers mean nothing. */
  readonly name?: string
  /** The names that may be looked up through this port; the agent then reads every lookup. */
  readonly lookups?: (name: string) => boolean
}

/** One rule of one policy, whatever kind it came from. */
export interface CompiledRule {
  readonly direction: Direction
  readonly isDeny: boolean
  /** Whether a pod that it selects is closed but for what rules allow. */
  readonly isDefaultDeny: boolean
  readonly subject: Selector
  /** None: nobody. */
  readonly peers: readonly PeerMatch[] | 'anyone'
  /** None: no port. */
  readonly ports: readonly PortMatch[] | 'all'
  readonly ref: RuleRef
}
