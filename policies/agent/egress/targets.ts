import { type Destination, isRestricted, type Restrictions } from './schema.ts'

/** Outputs that are generated from the policy. */
export const EGRESS_TARGETS = ['fqdn', 'proxy', 'laptop'] as const
export type EgressTarget = (typeof EGRESS_TARGETS)[number]

/**
 * Restrictions that each target can enforce. A name in a network policy can only be restricted by port. On a laptop the
 * proxy passes TLS on unread, so it sees no methods.
 */
const CAN_EXPRESS: Readonly<Record<EgressTarget, readonly (keyof typeof SAID)[]>> = {
  fqdn: [],
  proxy: ['read-only', 'methods', 'phases', 'caller'],
  laptop: ['phases', 'caller'],
}

const SAID = {
  'read-only': ({ mode }: Restrictions) => mode === 'read-only',
  methods: ({ methods }: Restrictions) => methods !== undefined,
  phases: ({ phases }: Restrictions) => phases !== undefined,
  caller: ({ caller }: Restrictions) => caller !== undefined,
} as const

export type Placement =
  | { readonly kind: 'whole' }
  /** Allowed without the restrictions that the target cannot enforce, because the entry says so. */
  | { readonly kind: 'loosened'; readonly lost: readonly string[] }
  | { readonly kind: 'left out'; readonly lost: readonly string[] }

/** Whether a target allows a destination, and the restrictions that are lost there. */
export function placementOf(destination: Destination, target: EgressTarget): Placement {
  const said = isRestricted(destination)
    ? Object.entries(SAID).filter(([, isSaid]) => isSaid(destination))
    : []
  const lost = said.map(([name]) => name).filter((name) => !CAN_EXPRESS[target].some((can) => can === name))
  if (lost.length === 0) return { kind: 'whole' }
  return { kind: isLoosened(destination, target) ? 'loosened' : 'left out', lost }
}

const isLoosened = ({ fqdn, splice }: Destination, target: EgressTarget): boolean =>
  (target === 'fqdn' ? fqdn : splice) === 'allow'

/** The destinations that a target allows. */
export const destinationsFor = (
  destinations: readonly Destination[],
  target: EgressTarget,
): readonly Destination[] => destinations.filter((one) => placementOf(one, target).kind !== 'left out')
