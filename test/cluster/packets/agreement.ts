import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { pathOf } from '../../../devcluster/client/kube-object.ts'
import { createEvaluator } from '../../../reachability/evaluate.ts'
import type { ClusterFacts } from '../../../reachability/model.ts'
import type { Outcome } from './cell.ts'
import { type Convoy, fuzzCells, laneName, lanesOf, placeSet } from './fuzz-world.ts'
import type { PolicySet } from './policy-generators.ts'
import { askPatiently, describeQuestion, hasArrived, type Question } from './questions.ts'
import type { Stage } from './stage.ts'

/** A policy set with the number that makes its names unique. */
export interface NumberedSet {
  readonly number: number
  readonly policies: PolicySet
}

export interface Disagreement {
  readonly number: number
  readonly cell: string
  readonly outcome: Outcome
  /** The evaluator's sentence. */
  readonly why: string
}

export interface Comparison {
  readonly sets: number
  readonly cells: number
  /** Cells that the evaluator allows: neither all nor none, or nothing has been compared. */
  readonly allowed: number
  readonly disagreements: readonly Disagreement[]
}

interface Compared extends Question {
  readonly number: number
  readonly isAllowed: boolean
  readonly why: string
}

/** Applies policy sets in the lanes of a convoy, and compares each cell with the result of real packets. */
export function createAgreement(stage: Stage, facts: ClusterFacts, convoy: Convoy = 0) {
  const lanes = lanesOf(convoy)
  let inForce: readonly KubeObject[] = []

  async function replace(wanted: readonly KubeObject[]): Promise<void> {
    const [created] = await Promise.all([
      Promise.all(wanted.map((policy) => stage.client.create(policy))),
      Promise.all(inForce.map((policy) => stage.client.delete(pathOf(policy)))),
    ])
    const namespaces = lanes.map(laneName)
    await stage.agent.waitUntilRealised({ namespaces, present: created, absent: inForce })
    inForce = created
  }

  return {
    /** At most as many sets as a convoy has lanes. */
    async compare(sets: readonly NumberedSet[]): Promise<Comparison> {
      const placed = sets.map(({ number, policies }, place) => {
        const lane = lanes[place]
        if (lane === undefined) throw new Error(`${sets.length} sets are more than there are lanes`)
        const inLane = placeSet(policies, lane, number).map((policy) => named(policy, number))
        return { number, lane, policies: inLane }
      })
      const questions = placed.flatMap(({ number, lane, policies }) =>
        questionsOf({ number, policies, cells: fuzzCells(stage, lane, number) }, facts),
      )
      await replace(placed.flatMap(({ policies }) => policies))
      const outcomes = await askPatiently(stage, questions, (index) => questions[index]?.isAllowed ?? false)
      const disagreements = questions.flatMap((question, index) => {
        const outcome = outcomes[index] ?? 'dropped'
        const { number, why, isAllowed } = question
        if (hasArrived(outcome) === isAllowed) return []
        return [{ number, cell: describeQuestion(question), outcome, why }]
      })
      const allowed = questions.filter(({ isAllowed }) => isAllowed).length
      return { sets: sets.length, cells: questions.length, allowed, disagreements }
    },
    clear: () => replace([]),
  }
}

/** Unique names prevent that a deleted policy is confused with a policy of the next set. */
const named = (policy: KubeObject, number: number): KubeObject => ({
  ...policy,
  metadata: { ...policy.metadata, name: `${policy.metadata.name}-${number}` },
})

interface PlacedSet {
  readonly number: number
  readonly policies: readonly KubeObject[]
  readonly cells: readonly Question[]
}

function questionsOf({ number, policies, cells }: PlacedSet, facts: ClusterFacts): Compared[] {
  const outcome = createEvaluator(policies, facts)
  if (!outcome.ok) throw new Error(`the evaluator does not take a generated set: ${show(outcome.faults)}`)
  const { evaluator } = outcome
  return cells.flatMap((cell) => {
    if (cell.probe === undefined) return []
    const { allowed, why } = evaluator.evaluate(cell.probe)
    return [{ ...cell, number, isAllowed: allowed, why }]
  })
}

export const show = (value: unknown): string => JSON.stringify(value, null, 1)
