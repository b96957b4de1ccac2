import type { Probe } from '../../../charts-src/reachability/model.ts'
import { type Cell, cellName, type Outcome } from './cell.ts'
import type { Prober } from './prober.ts'
import type { Stage } from './stage.ts'

/** Who is to try: a pod by namespace and name, or one of those that are no pods. */
export type ProberName = 'node' | 'outside' | 'api server' | readonly [namespace: string, name: string]

/** One question to both: what the evaluator is asked, and what the packet is. */
export interface Question {
  /** Who to whom, for a person. */
  readonly title: string
  readonly prober: ProberName
  /** Absent where the evaluator has no word for it. */
  readonly probe?: Probe
  readonly cell: Cell
}

/** Each of them once: trees have most of their cells in common. */
export function distinct<T extends Question>(questions: readonly T[]): T[] {
  return [...new Map(questions.map((one) => [`${one.prober} ${cellName(one.cell)}`, one])).values()]
}

/** The packet arrived, whether anybody listens there or not. */
export const hasArrived = (outcome: Outcome): boolean => outcome === 'open' || outcome === 'refused'

export const describeQuestion = ({ title, cell }: Question): string => `${title} (${cellName(cell)})`

/** Asks every prober once, with all its cells, and puts the answers into the order of the questions. */
async function ask(stage: Stage, questions: readonly Question[], timeoutMs?: number): Promise<Outcome[]> {
  const indexes = questions.map((_, index) => index)
  const byProber = Map.groupBy(indexes, (index) => String(questions[index]?.prober))
  const outcomes: Outcome[] = []
  await Promise.all(
    [...byProber.values()].map(async (group) => {
      const cells = group.flatMap((index) => questions[index]?.cell ?? [])
      const [first = 0] = group
      const prober = proberOf(stage, questions[first]?.prober ?? 'node')
      const answers = await prober.probe(cells, timeoutMs)
      group.forEach((index, place) => {
        outcomes[index] = answers[place] ?? 'dropped'
      })
    }),
  )
  return outcomes
}

/** Longer than the pause before a lost first packet is sent again. */
const SECOND_LOOK_MS = 2_500

/**
 * Asks, and asks once more with more time about what should have arrived and did not, as a busy machine answers late.
 * What should not arrive is never asked about again: once through is through.
 */
export async function askPatiently(
  stage: Stage,
  questions: readonly Question[],
  shouldArrive: (index: number) => boolean,
): Promise<Outcome[]> {
  const first = await ask(stage, questions)
  const missing = first.flatMap((outcome, index) =>
    shouldArrive(index) && !hasArrived(outcome) ? [index] : [],
  )
  const again = await ask(
    stage,
    missing.flatMap((index) => questions[index] ?? []),
    SECOND_LOOK_MS,
  )
  const second = new Map(missing.map((index, place) => [index, again[place]]))
  return first.map((outcome, index) => second.get(index) ?? outcome)
}

function proberOf(stage: Stage, prober: ProberName): Prober {
  if (prober === 'node') return stage.node.prober
  if (prober === 'outside') return stage.outside.prober
  if (prober === 'api server') return stage.apiServer.prober
  return stage.pod(...prober).prober
}
