import { create } from '../../admission/examples/attempt.ts'
import type { Mutant, Schema, Schemas } from '../../admission/mutants.ts'
import type { Actor } from '../../admission/space.ts'
import type { KubeClient } from '../../kube/client/kube-client.ts'
import type { AdmissionTest, Answer } from './admission-space.ts'

const PARALLEL = 16

export interface Verdict extends Answer {
  readonly mutant: Mutant
}

/** What the API server says of each mutant, a few at a time. */
export async function judge(test: AdmissionTest, by: Actor, mutants: readonly Mutant[]): Promise<Verdict[]> {
  const verdicts: Verdict[] = []
  const rest = mutants.values()
  const work = async () => {
    for (const mutant of rest) {
      verdicts.push({ mutant, ...(await test.ask(create(by, mutant.object))) })
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, work))
  return verdicts
}

/** Schemas of one API group as this very server publishes them. */
export async function fetchSchemas(client: KubeClient, group: string): Promise<Schemas> {
  const answer = JSON.parse(await client.raw({ method: 'GET', url: `/openapi/v3/${group}` }))
  return (answer as { components: { schemas: Record<string, Schema> } }).components.schemas
}
