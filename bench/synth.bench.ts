import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Bench, type Figure, figure, timeInTurn } from './harness.ts'

const ROUNDS = 5
const WARM_UP = 1
const ROOT = join(import.meta.dirname, '..')
const SUBJECTS = [
  {
    name: 'synth',
    argv: ['charts-src/main.ts', '--check'],
    barMs: 3000,
    note: 'every environment, rendered and held against what is committed',
  },
  {
    name: 'offline plan',
    argv: ['tools/offline-plan/main.ts', '--check', '--stack', 'prod'],
    barMs: 8000,
    note: 'the largest stack, planned without Azure and held against what is committed',
  },
] as const

const run = promisify(execFile)

/** The commands that a developer waits for before a commit, from process start, compared with a program that does nothing. */
export const bench: Bench = {
  name: 'synth',
  run: async () => {
    const figures: Figure[] = []
    for (const subject of SUBJECTS) figures.push(await measure(subject))
    return figures
  },
}

/** Fails if the committed trees differ from the rendered ones, because the time of a failing check is not comparable. */
async function measure({ name, argv, barMs, note }: (typeof SUBJECTS)[number]): Promise<Figure> {
  const samples = await timeInTurn({
    rounds: ROUNDS,
    warmUp: WARM_UP,
    baseline: () => run(process.execPath, ['-e', '0']),
    value: () => run(process.execPath, [...argv], { cwd: ROOT }),
  })
  return figure({ name, unit: 'ms', measure: 'absolute', bar: barMs, samples, note })
}
