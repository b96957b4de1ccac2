import { checkCalls } from './calls.ts'
import { checkDecisions } from './decisions.ts'
import { checkEndings, checkStarts } from './endings.ts'
import type { Finding, RoundFacts } from './facts.ts'
import { checkLeftovers } from './leftovers.ts'
import { checkStreams } from './streams.ts'
import { checkTrail } from './trail.ts'

/** Checks a round from outside, against the facts that its people and readers recorded. */
export const auditRound = (facts: RoundFacts): Finding[] => [
  ...checkStarts(facts),
  ...facts.runs.flatMap((run) => [
    ...checkEndings(run),
    ...checkStreams(run),
    ...checkCalls(run),
    ...checkDecisions(run),
  ]),
  ...checkTrail(facts),
  ...checkLeftovers(facts),
]
