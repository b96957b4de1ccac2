import type { Probe } from '../../../reachability/model.ts'
import { type Cell, cellName, type Outcome } from './cell.ts'
import type { Prober } from './prober.ts'
import type { Stage } from './stage.ts'

/** Who is to try: a pod by namespace and name, or one of those that are no pods. */
export type ProberName = 'node' | 'outside' | 'api server' | readonly [namespace: string, name: string]

/** One question with both forms: the request to the evaluator and the real packet. */
export interface Question {
  /** Source and target in readable form. */
  readonly title: string
  readonly prober: ProberName
  /** Undefined if the evaluator does not support the question. */
  readonly probe?: Probe
  readonly cell: Cell
}

/** Each of them once: trees have most of their cells in common. */
export function distinct<T extends Question>(questions: readonly T[]): T[] {
  return [...new Map(questions.map((one) => [`${one.prober} ${cellName(one.cell)}`, one])).values()]
}

/** The packet arrived, even if the port has no listener. */
export const hasArrived = (outcome: Outcome): boolean => outcome === 'open' || outcome === 'refused'

export const describeQuestion = ({ title, cell }: Question): string => `${title} (${cellName(cell)})`

/** Sends each prober all its cells in one request, and returns the outcomes in the order of the questions. */
async function ask(stage: Stage, questions: readonly Question[], timeoutMs?: number): Promise<Outcome[]> {
  const indexes = questions.map((_, index) => index)
  const groups = [...Map.groupBy(indexes, (index) => String(questions[index]?.prober)).values()]
  const outcomes: Outcome[] = []
  await Promise.all(
    groups.map(async (inOrder, number) => {
      // Each prober starts at a different question, so that they do not all contact the same listener at once.
      const start = Math.floor((inOrder.length * number) / groups.length)
      const group = [...inOrder.slice(start), ...inOrder.slice(0, start)]
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

/** The later ones are longer than the pause before a lost first packet is sent again. */
const LOOKS_MS = [400, 2_500, 5_000]

/**
 * Probes all questions, and repeats failed probes that should succeed with a longer timeout, because a busy machine
 * responds late. A probe that should fail is not repeated: one success is a failure of the test.
 */
export async function askPatiently(
  stage: Stage,
  questions: readonly Question[],
  shouldArrive: (index: number) => boolean,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  let todo = questions.map((_, index) => index)
  for (const lookMs of LOOKS_MS) {
    const answers = await ask(
      stage,
      todo.flatMap((index) => questions[index] ?? []),
      lookMs,
    )
    todo.forEach((index, place) => {
      outcomes[index] = answers[place] ?? 'dropped'
    })
    todo = todo.filter((index) => shouldArrive(index) && !hasArrived(outcomes[index] ?? 'dropped'))
  }
  return outcomes
}

function proberOf(stage: Stage, prober: ProberName): Prober {
  if (prober === 'node') return stage.node.prober
  if (prober === 'outside') return stage.outside.prober
  if (prober === 'api server') return stage.apiServer.prober
  return stage.pod(...prober).prober
}
