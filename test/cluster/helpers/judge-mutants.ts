import type { Attempt } from '../../admission/examples/attempt.ts'
import type { Mutant } from '../../admission/mutants.ts'
import type { AdmissionTest, Answer } from './admission-space.ts'

const PARALLEL = 16

export interface Verdict extends Answer {
  readonly mutant: Mutant
}

/** Returns the API server's verdict on each mutant. Sends a few requests at a time. */
export async function judge(
  test: AdmissionTest,
  mutants: readonly Mutant[],
  toAttempt: (mutant: Mutant) => Attempt,
): Promise<Verdict[]> {
  const verdicts: Verdict[] = []
  const rest = mutants.values()
  const work = async () => {
    for (const mutant of rest) verdicts.push({ mutant, ...(await test.ask(toAttempt(mutant))) })
  }
  await Promise.all(Array.from({ length: PARALLEL }, work))
  return verdicts
}
