import type { Finding, RoundFacts } from './facts.ts'

/** Nothing of a round is left when its services have stopped. */
export function checkLeftovers(facts: RoundFacts): Finding[] {
  const of = (check: string, names: readonly string[]) => names.map((message) => ({ check, message }))
  return [
    ...of('left process', facts.processes),
    ...of('left folder', facts.folders),
    ...of('left file', facts.files),
    ...of('left claim', facts.claims),
    ...of('left in the cluster', facts.clusterObjects),
    ...of('service', facts.problems),
  ]
}
