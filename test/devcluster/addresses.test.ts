import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_SLOTS, planAddresses, rangesOverlap } from '../../devcluster/host/addresses.ts'

const slots = Array.from({ length: MAX_SLOTS }, (_, slot) => slot)

describe('cluster addresses', () => {
  it('do not overlap between or within clusters', () => {
    const ranges = slots.flatMap((slot) => {
      const { linkRange, podRange } = planAddresses(slot)
      return [linkRange, podRange]
    })

    const overlapping = ranges.flatMap((a, i) => ranges.slice(i + 1).filter((b) => rangesOverlap(a, b)))

    expect(overlapping).toEqual([])
    expect(ranges.filter((range) => rangesOverlap(range, planAddresses(0).serviceRange))).toEqual([])
  })

  it('give each node a separate range within the range of the cluster', () => {
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

  it('overlap symmetrically, and each range overlaps itself', () => {
    fc.assert(
      fc.property(range, range, (a, b) => {
        expect(rangesOverlap(a, b)).toBe(rangesOverlap(b, a))
        expect(rangesOverlap(a, a)).toBe(true)
        expect(rangesOverlap(a, '0.0.0.0/0')).toBe(true)
      }),
    )
  })
})
