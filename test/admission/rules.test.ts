import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ADMISSION_POLICIES } from '../../policies/admission/policies.ts'
import { ESCAPE_PRECONDITIONS } from './escape-preconditions.ts'
import { EXAMPLES } from './examples/all.ts'
import { ESCAPE_ATTEMPTS } from './examples/escapes.ts'
import { withTables } from './tables.ts'

const rules = ADMISSION_POLICIES.flatMap((policy) => policy.rules)
const namesOf = (entries: readonly { readonly name: string }[]) => entries.map(({ name }) => name)

test('every rule has one request that passes and one that fails, and no example is without a rule', () => {
  expect(Object.keys(EXAMPLES).sort()).toEqual(namesOf(rules).sort())
})

test('no two rules and no two policies share a name', () => {
  expect(new Set(namesOf(rules)).size).toBe(rules.length)
  expect(new Set(namesOf(ADMISSION_POLICIES)).size).toBe(ADMISSION_POLICIES.length)
})

test.each(rules.map(({ name }) => name))(
  '%s explains the required action and the risk without the rule',
  (name) => {
    const { message, risk } = rules.find((rule) => rule.name === name)!

    expect(message.length).toBeGreaterThan(20)
    expect(message.length).toBeLessThan(400)
    expect(message).toMatch(/\b(must|may|only|remove|cannot|reserved|holds|lies)\b/)
    expect(risk.length).toBeGreaterThan(8)
  },
)

test('the eighteen known escapes are each named once, with rules that exist and an attempt', () => {
  expect(ESCAPE_PRECONDITIONS).toHaveLength(18)
  expect(Object.keys(ESCAPE_ATTEMPTS).sort()).toEqual(ESCAPE_PRECONDITIONS.map(({ id }) => id).sort())
  expect(ESCAPE_PRECONDITIONS.filter((known) => known.rules.length === 0)).toEqual([])
  const unknown = ESCAPE_PRECONDITIONS.flatMap((known) => known.rules).filter(
    (name) => !namesOf(rules).includes(name),
  )
  expect(unknown).toEqual([])
})

test('docs/admission.md has the tables of the rules as they are (node test/admission/write-tables.ts writes them)', () => {
  const page = readFileSync(new URL('../../docs/admission.md', import.meta.url), 'utf8')

  expect(withTables(page)).toBe(page)
})
