import { createHash } from 'node:crypto'
import type {
  EgressDestination,
  EgressGeneration,
  EgressState,
  ModelRoute,
} from '../../../contracts/egress.ts'
import type { EgressControlMessage } from '../../../contracts/egress-control.ts'
import type { ListedDestination } from '../../../policies/agent/egress/allowlist.ts'
import { canonicalJson } from '../../kit/canonical-json.ts'
import type { LiveNetwork } from '../../store/egress.ts'
import type { Restrictions } from '../runs/restrictions/restrictions.ts'
import { meteredPart } from './model-budgets.ts'
import type { NetworkRules } from './network-rules.ts'
import { classOf, pushOf } from './push-state.ts'
import type { RunCredentials } from './run-credentials.ts'
import { phaseOf } from './run-phase.ts'

export interface StateParts {
  readonly rules: Pick<NetworkRules, 'destinationsOf' | 'withheldFrom'>
  readonly restrictions: Pick<Restrictions, 'of'>
  readonly credentials: Pick<RunCredentials, 'forRun'>
  /** The model server of a run's agent, if the agent reaches it through the proxy. @default none does */
  readonly routeOf?: RouteOf | undefined
  /** The servers that a run's agent reaches itself through the proxy. @default none */
  readonly serversOf?: ServersOf | undefined
  /** @default the time of the system */
  readonly clock?: () => Date
}

export type RouteOf = (run: { readonly agentSpec: unknown; readonly owner: string }) => ModelRoute | undefined
export type ServersOf = (run: { readonly agentSpec: unknown }) => readonly ListedDestination[] | undefined

/** One list, because lists are sent once. */
const NOWHERE: EgressDestination[] = []

/** What the proxies allow: the open networks of the store, under the rules and restrictions of this process. */
export const generationsOf = (networks: readonly LiveNetwork[], parts: StateParts): EgressGeneration[] =>
  networks.flatMap((network) => generationOf(network, parts) ?? [])

/** Undefined if neither the commands of a sandbox nor its agent may use the proxy. */
function generationOf(
  network: LiveNetwork,
  { rules, restrictions, credentials, routeOf, serversOf, clock = () => new Date() }: StateParts,
): EgressGeneration | undefined {
  const { runId, generation, owner, pod } = network
  const kind = classOf(network, network.kind)
  const route = routeOf?.(network)
  const servers = serversOf?.(network)
  const listed = rules.destinationsOf(network, kind)
  if (!listed && !route && !servers) return undefined
  const { network: restriction, isFrozen } = restrictions.of({ id: runId, owner })
  // A frozen run calls no model.
  const reachable = servers && !isFrozen ? [...(listed ?? []), ...servers] : listed
  const withheld = [...rules.withheldFrom(network, kind)]
  const { placeholders, destinations } = reachable
    ? credentials.forRun({ id: runId, owner }, reachable)
    : { placeholders: [], destinations: NOWHERE }
  const phase = phaseOf(network, generation, clock())
  const modelRoute = route && { ...route, ...meteredPart(network.settings), ...(isFrozen && { isFrozen }) }
  return {
    ...{ runId, generation, phase, pod, restriction, destinations, withheld },
    ...pushOf(network, network.pushed, destinations.some(hasCredential)),
    ...(placeholders.length > 0 && { placeholders }),
    ...(modelRoute && { modelRoute }),
  }
}

const hasCredential = ({ credential }: EgressDestination): boolean => credential !== undefined

/** Writes the messages of one stream. Each list of destinations is sent once per stream, while a generation names it. */
export class MessageWriter {
  readonly #digests = new WeakMap<EgressDestination[], string>()
  #sent = new Set<string>()

  write({ generations, ...state }: EgressState, more: Pick<EgressControlMessage, 'keys' | 'checks'>): string {
    const policies: EgressControlMessage['policies'] = {}
    const named = new Set<string>()
    const message: EgressControlMessage = {
      ...state,
      generations: generations.map(({ destinations, socketPath: _path, ...generation }) => {
        const policy = this.#digestOf(destinations)
        named.add(policy)
        if (!this.#sent.has(policy)) policies[policy] = destinations
        return { ...generation, policy }
      }),
      policies,
      ...more,
    }
    this.#sent = named
    return `${JSON.stringify(message)}\n`
  }

  #digestOf(destinations: EgressDestination[]): string {
    const known = this.#digests.get(destinations)
    if (known !== undefined) return known
    const digest = createHash('sha256').update(canonicalJson(destinations)).digest('hex')
    this.#digests.set(destinations, digest)
    return digest
  }
}
