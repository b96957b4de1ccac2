import type { EgressGeneration, EgressState } from '../../../contracts/egress.ts'
import type { IntermediateAuthorities } from '../../egress-ca/intermediate.ts'

/**
 * Names the authority of every destination whose TLS the proxy terminates, and adds these authorities to the state. Each
 * sandbox has the authority for exactly its hosts.
 */
export function withAuthorities(state: EgressState, authorities: IntermediateAuthorities): EgressState {
  const used = new Map<string, NonNullable<EgressState['authorities']>[number]>()
  const name = (generation: EgressGeneration): EgressGeneration => {
    const terminated = generation.destinations.filter(({ authority }) => authority !== undefined)
    if (terminated.length === 0) return generation
    const authority = authorities.for(terminated.map(({ host }) => host))
    used.set(authority.digest, authority)
    const destinations = generation.destinations.map((destination) =>
      destination.authority === undefined ? destination : { ...destination, authority: authority.digest },
    )
    return { ...generation, destinations }
  }
  const generations = state.generations.map(name)
  return { ...state, generations, ...(used.size > 0 && { authorities: [...used.values()] }) }
}
