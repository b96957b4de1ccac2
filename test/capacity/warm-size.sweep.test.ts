import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hitRatio, underWay, underWayAtMost, warmSize } from '../../charts-src/capacity/warm-size.ts'
import { simulatePool } from './simulate-pool.ts'

const poisson = (load: number) => ({ load, dispersion: 1 })
/** A correct formula fails for about one of ten thousand seeds. */
const ERRORS = 4

const POOLS = [
  [1, 0.2],
  [4, 1.5],
  [6, 3],
  [12, 8],
] as const
const STARTS = ['fixed', 'exponential'] as const
const CASES = POOLS.flatMap(([warm, load], index) =>
  STARTS.map((starts) => ({ warm, load, starts, seed: 1000 + index })),
)

/** Difference between formula and simulation in standard errors. */
function distance(formula: number, pool: Parameters<typeof simulatePool>[0]): number {
  const { hitRatio: simulated, standardError } = simulatePool(pool)
  return Math.abs(formula - simulated) / standardError
}

describe('the formula and a simulated pool', () => {
  test.each(CASES)('agree: $warm warm, load $load, $starts starts', (pool) => {
    const { hitRatio: simulated, standardError } = simulatePool(pool)

    expect(standardError).toBeLessThan(0.005)
    expect(Math.abs(hitRatio(pool.warm, poisson(pool.load)) - simulated)).toBeLessThan(ERRORS * standardError)
  })

  test.each(CASES.filter(({ warm }) => warm > 1))(
    'disagree for a wrong formula (control): $warm warm, load $load, $starts starts',
    (pool) => {
      const { warm, load } = pool
      const wrong = {
        'the claim itself forgotten': hitRatio(warm + 1, poisson(load)),
        'one too few': hitRatio(warm - 1, poisson(load)),
        'the load a tenth too small': hitRatio(warm, poisson(0.9 * load)),
        'bursts although there are none': hitRatio(warm, { load, dispersion: 1.5 }),
      }

      for (const [name, formula] of Object.entries(wrong)) {
        expect(distance(formula, pool), name).toBeGreaterThan(ERRORS)
      }
    },
  )

  test.each([
    [8, 3, 2],
    [14, 4, 4],
    [30, 10, 6],
  ])('agree in bursts: %i warm, load %d, dispersion %d', (warm, load, dispersion) => {
    const pool = { warm, load, dispersion, starts: 'fixed', seed: 77 } as const

    expect(distance(hitRatio(warm, { load, dispersion }), pool)).toBeLessThan(ERRORS)
    expect(distance(hitRatio(warm, poisson(load)), pool)).toBeGreaterThan(ERRORS)
  })

  test.each([
    [8, 3, 2],
    [14, 4, 4],
  ])('never promise too much in bursts with varying start times: %i, %d, %d', (warm, load, dispersion) => {
    const { hitRatio: simulated, standardError } = simulatePool({
      warm,
      load,
      dispersion,
      starts: 'exponential',
      seed: 78,
    })

    expect(hitRatio(warm, { load, dispersion })).toBeLessThan(simulated + ERRORS * standardError)
  })

  test.each(STARTS)('never promise too much if claims start their own sandboxes, %s starts', (starts) => {
    const pool = { warm: 4, load: 3, starts, whenEmpty: 'starts its own', seed: 79 } as const
    const { hitRatio: simulated, standardError } = simulatePool(pool)

    expect(hitRatio(4, poisson(3))).toBeLessThan(simulated - ERRORS * standardError)
  })

  test('are equal for equal seeds', () => {
    const pool = { warm: 4, load: 2, starts: 'exponential', seed: 5 } as const

    expect(simulatePool(pool)).toEqual(simulatePool(pool))
    expect(simulatePool({ ...pool, seed: 6 })).not.toEqual(simulatePool(pool))
  })
})

const loads = fc.double({ min: 0.001, max: 3000, noNaN: true })
const dispersions = fc.double({ min: 1, max: 20, noNaN: true })

describe('the number of starts in progress', () => {
  test('has the requested mean and variance', () => {
    fc.assert(
      fc.property(loads, dispersions, (load, dispersion) => {
        const probabilities = underWay({ load, dispersion })
        const moment = (power: number) =>
          probabilities.reduce((sum, probability, count) => sum + probability * count ** power, 0)
        const mean = moment(1)

        expect(mean / load).toBeCloseTo(1, 6)
        expect((moment(2) - mean ** 2) / load / dispersion).toBeCloseTo(1, 4)
      }),
      { numRuns: 60 },
    )
  })

  test('has a Poisson distribution without bursts', () => {
    const [none = 0, one = 0, two = 0] = underWay(poisson(2))

    expect(none).toBeCloseTo(Math.exp(-2), 12)
    expect(one).toBeCloseTo(2 * Math.exp(-2), 12)
    expect(two).toBeCloseTo(2 * Math.exp(-2), 12)
  })

  test.each([
    [60, 0.999, 85],
    [1, 0.9, 2],
    [100_000, 0.5, 100_000],
  ])('matches the published quantile: mean %d, %d', (load, share, most) => {
    expect(underWayAtMost(poisson(load), share)).toBe(most)
  })
})

describe('the recommended size', () => {
  test('is the smallest size that reaches the target', () => {
    const targets = fc.double({ min: 0.5, max: 0.9999, noNaN: true })
    fc.assert(
      fc.property(loads, dispersions, targets, (load, dispersion, target) => {
        const warm = warmSize({ load, dispersion }, target)

        expect(hitRatio(warm, { load, dispersion })).toBeGreaterThanOrEqual(target - 1e-12)
        expect(hitRatio(warm - 1, { load, dispersion })).toBeLessThan(target)
      }),
      { numRuns: 60 },
    )
  })

  test('grows with the load and with bursts', () => {
    expect(warmSize(poisson(6), 0.99)).toBeGreaterThan(warmSize(poisson(3), 0.99))
    expect(warmSize({ load: 3, dispersion: 4 }, 0.99)).toBeGreaterThan(warmSize(poisson(3), 0.99))
  })

  test('is never zero', () => {
    expect(hitRatio(0, poisson(0.001))).toBe(0)
    expect(warmSize(poisson(0.001), 0.99)).toBe(1)
  })
})
