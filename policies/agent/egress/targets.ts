import { type Destination, isRestricted, type Restrictions } from './schema.ts'

/** Outputs that are generated from the policy. */
export const EGRESS_TARGETS = ['fqdn', 'proxy', 'laptop'] as const
export type EgressTarget = (typeof EGRESS_TARGETS)[number]

type Restriction = keyof typeof SAID

const OF_CONNECTIONS: readonly Restriction[] = ['phases', 'caller', 'maxSentMiB']

const SAID = {
  'read-only': ({ mode }: Restrictions) => mode === 'read-only',
  methods: ({ methods }: Restrictions) => methods !== undefined,
  paths: ({ paths, requests }: Restrictions) => paths !== undefined || requests !== undefined,
  phases: ({ phases }: Restrictions) => phases !== undefined,
  caller: ({ caller }: Restrictions) => caller !== undefined,
  maxSentMiB: ({ maxSentMiB }: Restrictions) => maxSentMiB !== undefined,
} as const

export type Placement =
  | { readonly kind: 'whole' }
  /** Allowed without the restrictions that the target cannot enforce, because the entry says so. */
  | { readonly kind: 'loosened'; readonly lost: readonly string[] }
  | { readonly kind: 'left out'; readonly lost: readonly string[] }

/** Whether a target allows a destination, and the restrictions that are lost there. */
export function placementOf(destination: Destination, target: EgressTarget): Placement {
  const lost = isRestricted(destination) ? lostOf(destination, target) : []
  if (lost.length === 0) return { kind: 'whole' }
  return { kind: target !== 'fqdn' || destination.fqdn === 'allow' ? 'loosened' : 'left out', lost }
}

/**
 * A name in a network policy can only be restricted by port. A proxy, on a laptop or in a cluster, enforces everything,
 * except inside the TLS that it passes on unread.
 */
function lostOf(destination: Destination, target: EgressTarget): Restriction[] {
  const said = (Object.keys(SAID) as Restriction[]).filter((name) => SAID[name](destination))
  if (target === 'fqdn') return said
  return destination.splice === 'allow' ? said.filter((name) => !OF_CONNECTIONS.includes(name)) : []
}

/** The destinations that a target allows. */
export const destinationsFor = (
  destinations: readonly Destination[],
  target: EgressTarget,
): readonly Destination[] => destinations.filter((one) => placementOf(one, target).kind !== 'left out')
