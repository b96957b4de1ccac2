import { setTimeout as sleep } from 'node:timers/promises'
import { type Cell, cellName, type Outcome } from './cell.ts'
import type { Prober } from './prober.ts'
import { hasArrived } from './questions.ts'

/** A repeated attempt of one prober, with its results. */
export interface WatchedCell extends Cell {
  /** Whether a sandbox of the class may do this. */
  readonly isMeant: boolean
  /** For a person. */
  readonly title: string
}

export interface Round {
  readonly begunAt: number
  readonly outcomes: readonly Outcome[]
}

export interface Watch {
  readonly cells: readonly WatchedCell[]
  readonly rounds: readonly Round[]
  /** The last round. Throws the prober's error if the prober has ended. */
  latest(): Round | undefined
  /** Ends after the round that is going on. */
  stop(): Promise<void>
}

/** Short, so that many rounds fit into a phase. A response needs a millisecond. */
const ROUND_MS = 150

/** Pause after a fast round: without it, a prober would use a whole CPU. */
const BETWEEN_MS = 10

/** Tries the cells in rounds until it is stopped or the prober ends. */
export function startWatch(prober: Prober, cells: readonly WatchedCell[]): Watch {
  const rounds: Round[] = []
  let isStopped = false
  let failure: unknown
  async function run(): Promise<void> {
    while (!isStopped) {
      const begunAt = Date.now()
      const outcomes = await prober.probe(cells, ROUND_MS).catch((error: unknown) => {
        failure = error
      })
      if (!outcomes) return
      rounds.push({ begunAt, outcomes })
      await sleep(Math.max(0, begunAt + BETWEEN_MS - Date.now()))
    }
  }
  const running = run()
  return {
    cells,
    rounds,
    latest() {
      if (failure !== undefined) throw failure
      return rounds.at(-1)
    },
    async stop() {
      isStopped = true
      await running
    },
  }
}

/** Everything that arrived and must not have, with the moment. */
export function leaksOf({ cells, rounds }: Watch): string[] {
  return rounds.flatMap(({ begunAt, outcomes }) =>
    cells.flatMap((cell, index) =>
      !cell.isMeant && hasArrived(outcomes[index] ?? 'dropped')
        ? [`${new Date(begunAt).toISOString()} ${cell.title} ${cellName(cell)}`]
        : [],
    ),
  )
}

/** How many rounds began in a stretch of time. */
export function roundsBetween({ rounds }: Watch, from: number, to: number): Round[] {
  return rounds.filter(({ begunAt }) => from <= begunAt && begunAt < to)
}

/** Whether every allowed cell was open in one of the rounds. */
export function hasDoneWhatIsMeant({ cells }: Watch, rounds: readonly Round[]): boolean {
  return cells.every(
    ({ isMeant }, index) => !isMeant || rounds.some(({ outcomes }) => outcomes[index] === 'open'),
  )
}
