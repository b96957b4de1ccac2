import { setTimeout as delay } from 'node:timers/promises'

/** One benchmark: `npm run bench -- <name>` runs it. A bench may measure several figures. */
export interface Bench {
  readonly name: string
  run(): Promise<Figure | readonly Figure[]>
}

type Unit = 'ms' | 'µs' | 'bytes' | 'MB/s' | 'count'

/** One measured figure and the bar it has to reach. `samples` are raw, in `unit`. */
export interface Figure {
  readonly name: string
  readonly unit: Unit
  readonly baseline: number
  readonly value: number
  /** What the bar is held against: `value / baseline`, or `value - baseline` where `measure` says so. */
  readonly ratio: number
  readonly measure: 'ratio' | 'added' | 'absolute'
  /** Infinity (`null` in JSON) where the figure is only stated. */
  readonly bar: number
  readonly pass: boolean
  readonly samples: { readonly baseline: readonly number[]; readonly value: readonly number[] }
  /** What the reader must know to judge the figure. */
  readonly note?: string
}

export interface FigureInput {
  readonly name: string
  readonly unit: Unit
  /** `ratio`: value ÷ baseline ≤ bar; `added`: value − baseline ≤ bar; `absolute`: value ≤ bar. */
  readonly measure?: Figure['measure']
  readonly bar: number
  readonly samples: Figure['samples']
  /** Which percentile of the samples is compared.
   * @default 50 */
  readonly percentile?: number
  readonly note?: string
}

/** Reduces raw samples to one figure. */
export function figure(input: FigureInput): Figure {
  const measure = input.measure ?? 'ratio'
  const at = input.percentile ?? 50
  const baseline = percentile(input.samples.baseline, at)
  const value = percentile(input.samples.value, at)
  const ratio = { ratio: value / baseline, added: value - baseline, absolute: value }[measure]
  return {
    name: input.name,
    unit: input.unit,
    baseline,
    value,
    ratio,
    measure,
    bar: input.bar,
    pass: ratio <= input.bar,
    samples: input.samples,
    ...(input.note === undefined ? {} : { note: input.note }),
  }
}

/** Nearest-rank percentile; 0 for no samples. */
export function percentile(samples: readonly number[], percent: number): number {
  const sorted = samples.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? 0
}

/**
 * Times two operations in turn, in milliseconds, so that a drift of the machine meets both alike.
 * The first `warmUp` rounds are thrown away.
 */
export async function timeInTurn(options: {
  rounds: number
  warmUp: number
  /** A pause before each, so that what one leaves to the kernel is not charged to the other.
   * @default 0 */
  settleMs?: number
  baseline: () => Promise<unknown>
  value: () => Promise<unknown>
}): Promise<{ baseline: number[]; value: number[] }> {
  const samples = { baseline: [] as number[], value: [] as number[] }
  for (let round = -options.warmUp; round < options.rounds; round++) {
    await delay(options.settleMs ?? 0)
    const baseline = await timed(options.baseline)
    await delay(options.settleMs ?? 0)
    const value = await timed(options.value)
    if (round < 0) continue
    samples.baseline.push(baseline)
    samples.value.push(value)
  }
  return samples
}

/** Milliseconds that `work` took. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}
