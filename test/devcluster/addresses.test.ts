import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_SLOTS, planAddresses, rangesOverlap } from '../../devcluster/host/addresses.ts'

const slots = Array.from({ length: MAX_SLOTS }, (_, slot) => slot)

describe('the addresses of clusters', () => {
  it('never overlap between two clusters, nor within one', () => {
    const ranges = slots.flatMap((slot) => {
      const { linkRange, podRange } = planAddresses(slot)
      return [linkRange, podRange]
    })

    const overlapping = ranges.flatMap((a, i) => ranges.slice(i + 1).filter((b) => rangesOverlap(a, b)))

    expect(overlapping).toEqual([])
    expect(ranges.filter((range) => rangesOverlap(range, planAddresses(0).serviceRange))).toEqual([])
  })

  it('give each node a range of its own inside the cluster’s', () => {
    const plan = planAddresses(3)

    expect(rangesOverlap(plan.podRangeOf(0), plan.podRangeOf(1))).toBe(false)
    expect(rangesOverlap(plan.podRangeOf(1), plan.podRange)).toBe(true)
    expect(plan.node(1)).toBe('10.35.0.11')
  })
})

describe('two ranges', () => {
  const octet = fc.integer({ min: 0, max: 255 })
  const range = fc
    .tuple(octet, octet, octet, octet, fc.integer({ min: 0, max: 32 }))
    .map(([a, b, c, d, bits]) => `${a}.${b}.${c}.${d}/${bits}`)

  it('overlap the same way round and back, and each overlaps itself', () => {
    fc.assert(
      fc.property(range, range, (a, b) => {
        expect(rangesOverlap(a, b)).toBe(rangesOverlap(b, a))
        expect(rangesOverlap(a, a)).toBe(true)
        expect(rangesOverlap(a, '0.0.0.0/0')).toBe(true)
      }),
    )
  })
})
