import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from './state-rig.ts'

const PAGE = readFileSync(join(ROOT, 'docs/azure.md'), 'utf8')
const RULES = new Set(
  [...readFileSync(join(ROOT, 'docs/stack-policy.md'), 'utf8').matchAll(/^\| \d+ \| `([a-z-]+)` \|/gm)].map(
    ([, name]) => name,
  ),
)
const rows = [...PAGE.matchAll(/^\| (\d+) \| (.+) \| (.+) \| (.+) \|$/gm)].map(
  ([, number, , answer, where]) => ({
    number: Number(number),
    answer: answer ?? '',
    references: [...(where ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? ''),
  }),
)
/** A key of a stack file is named as such, and is no file and no rule. */
const KEYS = new Set(['names'])
const exists = (reference: string) =>
  RULES.has(reference) || KEYS.has(reference) || existsSync(join(ROOT, reference))

describe('the page of traps', () => {
  test('has each of the 49 once', () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 49 }, (_, index) => index + 1))
    expect(RULES.size).toBeGreaterThanOrEqual(40)
  })

  test.each(rows)(
    'refers only to existing rules, tests and files in point $number',
    ({ answer, references }) => {
      expect(references.length).toBeGreaterThan(0)
      expect(references.filter((reference) => !exists(reference))).toEqual([])
      const words: readonly string[] = answer.match(/\b(rule|test|default|not|in part)\b/g) ?? []
      expect(words.length).toBeGreaterThan(0)
      if (words.includes('rule')) expect(references.some((one) => RULES.has(one))).toBe(true)
      if (words[0] === 'test')
        expect(references.some((one) => /^(?:test|infra|tools|cli)\//.test(one))).toBe(true)
    },
  )

  test('names nothing that is not there, elsewhere either', () => {
    const paths = [
      ...PAGE.matchAll(/`((?:infra|test|cli|policies|contracts|tools|docs|\.github)\/[\w./-]+)`/g),
    ]

    expect(paths.map(([, path]) => path ?? '').filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })
})
