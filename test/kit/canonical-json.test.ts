import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../../runtime/kit/canonical-json.ts'

it('writes keys in the order of their UTF-16 code units, as RFC 8785 requires', () => {
  // The example of section 3.2.3 of the RFC.
  const value = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis',
  }

  expect(Object.values(JSON.parse(canonicalJson(value)))).toHaveLength(7)
  expect([...canonicalJson(value).matchAll(/:"([^"]+)"/g)].map(([, name]) => name)).toEqual([
    'Carriage Return',
    'One',
    'Control',
    'Latin Small Letter O With Diaeresis',
    'Euro Sign',
    'Emoji: Grinning Face',
    'Hebrew Letter Dalet With Dagesh',
  ])
})

it('writes numbers as RFC 8785 requires', () => {
  expect(canonicalJson([333333333.3333333, 1e30, 4.5, 2e-3, 1e-27, -0])).toBe(
    '[333333333.3333333,1e+30,4.5,0.002,1e-27,0]',
  )
})

it('does not depend on the order in which keys were added, and loses nothing', () => {
  const reordered = (value: unknown): unknown =>
    value === null || typeof value !== 'object' || Array.isArray(value)
      ? value
      : Object.fromEntries(
          Object.entries(value)
            .reverse()
            .map(([key, member]) => [key, reordered(member)]),
        )
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const text = canonicalJson(value)

      expect(canonicalJson(reordered(value))).toBe(text)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
    }),
    { numRuns: 500 },
  )
})

it.each([
  ['undefined', undefined],
  ['NaN', { a: Number.NaN }],
  ['an infinity', [Number.POSITIVE_INFINITY]],
  ['a function', { a: () => 1 }],
  ['a bigint', { a: 1n }],
])('throws on %s', (_name, value) => {
  expect(() => canonicalJson(value)).toThrow(/can ?not/)
})

it('throws on a cycle', () => {
  const cycle: Record<string, unknown> = {}
  cycle['a'] = cycle

  expect(() => canonicalJson(cycle)).toThrow(/circular/i)
})
