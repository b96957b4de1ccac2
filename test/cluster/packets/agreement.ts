import { createEvaluator } from '../../../charts-src/reachability/evaluate.ts'
import type { ClusterFacts } from '../../../charts-src/reachability/model.ts'
import type { KubeObject } from '../../kube/client/kube-object.ts'
import { pathOf } from '../../kube/client/kube-object.ts'
import { type Cell, cellName, type Outcome } from './cell.ts'
import { type FuzzCell, fuzzCells, LANES, laneName, placeSet } from './fuzz-world.ts'
import type { PolicySet } from './policy-generators.ts'
import type { Prober } from './prober.ts'
import type { Stage } from './stage.ts'

/** A set with the number that gives it names of its own. */
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
  readonly cells: number
  /** Cells that the evaluator allows: neither all nor none, or nothing has been compared. */
  readonly allowed: number
  readonly disagreements: readonly Disagreement[]
}

/** Longer than the pause before a lost first packet is sent again. */
const SECOND_LOOK_MS = 2_500

interface Question extends FuzzCell {
  readonly number: number
  readonly isAllowed: boolean
  readonly why: string
}

/** Puts sets into force, as many at a time as there are lanes, and compares each cell with what the packets do. */
export function createAgreement(stage: Stage, facts: ClusterFacts) {
  let inForce: readonly KubeObject[] = []

  async function replace(wanted: readonly KubeObject[]): Promise<void> {
    const [created] = await Promise.all([
      Promise.all(wanted.map((policy) => stage.client.create(policy))),
      Promise.all(inForce.map((policy) => stage.client.delete(pathOf(policy)))),
    ])
    const namespaces = Array.from({ length: LANES }, (_, lane) => laneName(lane))
    await stage.agent.waitUntilRealised({ namespaces, present: created, absent: inForce })
    inForce = created
  }

  return {
    /** At most as many sets as there are lanes. */
    async compare(sets: readonly NumberedSet[]): Promise<Comparison> {
      const placed = sets.map(({ number, policies }, lane) => ({
        number,
        lane,
        policies: placeSet(policies, lane, number).map((policy) => named(policy, number)),
      }))
      const questions = placed.flatMap(({ number, lane, policies }) =>
        questionsOf({ number, policies, cells: fuzzCells(stage, lane, number) }, facts),
      )
      await replace(placed.flatMap(({ policies }) => policies))
      const first = await ask(stage, questions)
      const doubtful = questions.filter((question, index) => !agrees(question, first[index]))
      const second = await ask(stage, doubtful, SECOND_LOOK_MS)
      const disagreements = doubtful.flatMap((question, index) => {
        const outcome = second[index] ?? 'dropped'
        return agrees(question, outcome) ? [] : [disagreement(question, outcome)]
      })
      const allowed = questions.filter(({ isAllowed }) => isAllowed).length
      return { cells: questions.length, allowed, disagreements }
    },
    clear: () => replace([]),
  }
}

/** A policy that was deleted must not be taken for the one of the same name in the next set. */
const named = (policy: KubeObject, number: number): KubeObject => ({
  ...policy,
  metadata: { ...policy.metadata, name: `${policy.metadata.name}-${number}` },
})

interface PlacedSet {
  readonly number: number
  readonly policies: readonly KubeObject[]
  readonly cells: readonly FuzzCell[]
}

function questionsOf({ number, policies, cells }: PlacedSet, facts: ClusterFacts): Question[] {
  const outcome = createEvaluator(policies, facts)
  if (!outcome.ok) throw new Error(`the evaluator does not take a generated set: ${show(outcome.faults)}`)
  return cells.map((cell) => {
    const { allowed, why } = outcome.evaluator.evaluate(cell.probe)
    return { ...cell, number, isAllowed: allowed, why }
  })
}

/** Everything listens, so `refused` is no answer that a policy gives. */
const agrees = ({ isAllowed }: Question, outcome: Outcome | undefined): boolean =>
  isAllowed
    ? outcome === 'open'
    : outcome === 'dropped' || outcome === 'name refused' || outcome === 'name dropped'

function disagreement({ number, prober, cell, why }: Question, outcome: Outcome): Disagreement {
  const source = typeof prober === 'string' ? prober : prober.join('/')
  return { number, cell: `${source} → ${cellName(cell)}`, outcome, why }
}

/** Asks every prober once, with all its cells, and puts the answers into the order of the questions. */
async function ask(stage: Stage, questions: readonly Question[], timeoutMs?: number): Promise<Outcome[]> {
  const byProber = Map.groupBy(questions, ({ prober }) => String(prober))
  const outcomes = new Map<Question, Outcome>()
  await Promise.all(
    [...byProber.values()].map(async (group) => {
      const cells: Cell[] = group.map(({ cell }) => cell)
      const prober = proberOf(stage, group[0]?.prober ?? 'node')
      const answers = await prober.probe(cells, timeoutMs)
      group.forEach((question, index) => {
        const answer = answers[index]
        if (answer) outcomes.set(question, answer)
      })
    }),
  )
  return questions.map((question) => {
    const outcome = outcomes.get(question)
    if (!outcome) throw new Error(`no answer about ${cellName(question.cell)}`)
    return outcome
  })
}

function proberOf(stage: Stage, prober: FuzzCell['prober']): Prober {
  if (prober === 'node') return stage.node.prober
  if (prober === 'outside') return stage.outside.prober
  return stage.pod(...prober).prober
}

export const show = (value: unknown): string => JSON.stringify(value, null, 1)
