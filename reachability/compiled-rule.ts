import type { Range } from './address.ts'
import type { RuleRef } from './model.ts'
import type { Protocol } from './port-set.ts'
import type { Selector } from './selector.ts'

export type Direction = 'ingress' | 'egress'

/** The other end of the connection that a rule matches. */
export type PeerMatch =
  | { readonly kind: 'selector'; readonly selector: Selector }
  | { readonly kind: 'range'; readonly range: Range; readonly except: readonly Range[] }
  | { readonly kind: 'names'; readonly matches: (name: string) => boolean }

/** One port, or a range of ports, of one protocol. */
export interface PortMatch {
  readonly protocol: Exclude<Protocol, 'ICMP'>
  readonly first: number
  readonly last: number
  /** A port name. If set, `first` and `last` are ignored. */
  readonly name?: string
  /** The names that may be looked up through this port. If set, the agent inspects every lookup. */
  readonly lookups?: (name: string) => boolean
}

/** One rule of a policy, in the same form for every kind of policy. */
export interface CompiledRule {
  readonly direction: Direction
  readonly isDeny: boolean
  /** Whether the rule makes its pods default-deny in this direction. */
  readonly isDefaultDeny: boolean
  readonly subject: Selector
  /** An empty list matches no peer. */
  readonly peers: readonly PeerMatch[] | 'anyone'
  /** An empty list matches no port. */
  readonly ports: readonly PortMatch[] | 'all'
  readonly ref: RuleRef
}
