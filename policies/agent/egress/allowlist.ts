import type { EgressDestination } from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import type { RunPhase } from '../../../contracts/policy.ts'
import { modeOf } from './mode.ts'
import { methodsOf, requestsOf } from './requests.ts'
import type { ResolvedEgress } from './resolve.ts'
import type { Destination } from './schema.ts'
import { destinationsFor } from './targets.ts'

const PHASES: readonly RunPhase[] = ['setup', 'work']

/**
 * Marks a destination whose TLS is terminated. It names no authority, so that a proxy refuses the destination until the
 * API has named one.
 */
export const UNSIGNED = 'unsigned'

/** A destination with the kind of credential that owners of runs may use there. */
export type ListedDestination = EgressDestination & Pick<Destination, 'accepts'>

/**
 * Returns the destinations that a target allows for a class of sandboxes: the egress proxy, or the laptop's command
 * sandbox.
 */
export const allowlist = (
  egress: ResolvedEgress,
  kind: SandboxKind,
  target: 'proxy' | 'laptop',
): ListedDestination[] => destinationsFor(egress.classes[kind], target).map(toAllowed)

function toAllowed(destination: Destination): ListedDestination {
  const {
    host,
    ports,
    phases = PHASES,
    caller,
    http,
    addresses,
    upgrade,
    allow,
    credential,
    maxSentMiB,
  } = destination
  const accepts = acceptedBy(destination)
  const requests = requestsOf(destination)
  return {
    host,
    ports: [...ports],
    methods: methodsOf(destination),
    phases: [...phases],
    caller: caller ?? 'any',
    ...(http && { http }),
    ...(addresses && { addresses: [...addresses] }),
    ...(requests && { requests }),
    ...(modeOf(destination) === 'terminate' && { authority: UNSIGNED }),
    ...(upgrade && { upgrade }),
    ...(allow && { allow: [...allow] }),
    ...(credential !== undefined && { credential }),
    ...(maxSentMiB !== undefined && { maxSent: { bytes: maxSentMiB * 2 ** 20, entry: host } }),
    ...(accepts && { accepts }),
  }
}

/** An entry that names `registry` says that each owner uses a credential of their own. */
const acceptedBy = ({ accepts, credential }: Destination): Destination['accepts'] =>
  accepts ?? (credential === 'registry' ? credential : undefined)
