import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { simulatePool } from '../../charts-src/capacity/simulate-pool.ts'
import { hitRatio, hitRatioWithLoss, MAX_LOAD, warmSize } from '../../charts-src/capacity/warm-size.ts'

const CLAIMS = 200_000
const anyLoad = fc.double({ min: 0.01, max: 60, noNaN: true })

describe('the warm size', () => {
  it.each([
    { warm: 1, arrivalsPerSecond: 0.05, startSeconds: 20 },
    { warm: 4, arrivalsPerSecond: 0.1, startSeconds: 25 },
    { warm: 19, arrivalsPerSecond: 20 / 60, startSeconds: 30 },
    { warm: 12, arrivalsPerSecond: 2, startSeconds: 5 },
  ])('is what a played pool shows: $warm warm, $arrivalsPerSecond claims a second', (pool) => {
    const load = pool.arrivalsPerSecond * pool.startSeconds
    // Claims are not independent, so three times the deviation of as many independent ones, and a little more.
    const tolerance = 6 * Math.sqrt(0.25 / CLAIMS) + 0.003

    for (const starts of ['fixed', 'exponential'] as const) {
      const play = (whenEmpty: 'takes the next' | 'starts its own') =>
        simulatePool({ ...pool, starts, whenEmpty, claims: CLAIMS, seed: 7 })

      expect(Math.abs(play('takes the next') - hitRatio(pool.warm, load))).toBeLessThan(tolerance)
      expect(Math.abs(play('starts its own') - hitRatioWithLoss(pool.warm, load))).toBeLessThan(tolerance)
    }
  })

  it.each([
    // Erlang B of 2 erlang on 3 lines is 4/19, on 5 lines 4/109 (any traffic table).
    [3, 2, 1 - 4 / 19],
    [5, 2, 1 - 4 / 109],
  ])('agrees with the tables of Erlang for %i lines and %d erlang', (warm, load, expected) => {
    expect(hitRatioWithLoss(warm, load)).toBeCloseTo(expected, 12)
  })

  it.each([
    [1, 1, Math.exp(-1)],
    [2, 1, 2 * Math.exp(-1)],
    [3, 1, 2.5 * Math.exp(-1)],
  ])('sums the terms of Poisson: %i warm, load %d', (warm, load, expected) => {
    expect(hitRatio(warm, load)).toBeCloseTo(expected, 12)
  })

  it('is the smallest that reaches its target, and its model errs on the safe side', () => {
    fc.assert(
      fc.property(anyLoad, fc.double({ min: 0.5, max: 0.9999, noNaN: true }), (load, target) => {
        const warm = warmSize(load, target)

        expect(hitRatio(warm, load)).toBeGreaterThanOrEqual(target)
        if (warm > 1) expect(hitRatio(warm - 1, load)).toBeLessThan(target)
        expect(hitRatioWithLoss(warm, load)).toBeGreaterThanOrEqual(hitRatio(warm, load) - 1e-12)
      }),
    )
  })

  it('rises with load and with target', () => {
    fc.assert(
      fc.property(anyLoad, anyLoad, (a, b) => {
        const [low = 0, high = 0] = [a, b].toSorted((x, y) => x - y)
        expect(warmSize(low, 0.99)).toBeLessThanOrEqual(warmSize(high, 0.99))
        expect(warmSize(a, 0.9)).toBeLessThanOrEqual(warmSize(a, 0.99))
      }),
    )
  })

  it('ends for the largest load that the command takes', () => {
    expect(warmSize(MAX_LOAD, 0.9999)).toBeGreaterThan(MAX_LOAD)
  })
})
