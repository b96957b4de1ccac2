import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Plan } from '../../../contracts/planned-resource.ts'
import { checkStack, STACK_RULES } from '../../../policies/stack/rules.ts'
import { MUTANTS } from './mutants.ts'
import { changed, recordedPlan } from './recorded-plan.ts'
import { RECORDINGS } from './recording.ts'
import { withRules } from './tables.ts'

const told = (plan: Plan) => checkStack(plan).map(({ rule }) => rule)

test.each(RECORDINGS)('finds nothing in what the engine asked of %s', (name) => {
  expect(recordedPlan(name).resources.length).toBeGreaterThan(10)
  expect(checkStack(recordedPlan(name))).toEqual([])
})

describe('each weakening is found only by its own rule, which names the change to make and the place', () => {
  const cases = MUTANTS.flatMap((mutant, index) =>
    ['new', 'there']
      .map((state) => ({ ...mutant, index, name: `${mutant.run}-${state}` }))
      .filter(({ name }) => RECORDINGS.includes(name)),
  )

  test.each(cases)('$rule: $name $of $path ($index)', ({ rule, of, path, value, says, name }) => {
    const found = checkStack(changed(recordedPlan(name), of, [path, value]))

    expect([...new Set(found.map((one) => one.rule))]).toEqual([rule])
    expect(found.map(({ message }) => message).join('\n')).toMatch(says)
    for (const { urn, message, path: at } of found) {
      expect(urn).toMatch(/^urn:pulumi:/)
      expect(message.startsWith(at)).toBe(true)
    }
  })

  test('every rule has one', () => {
    const names = STACK_RULES.map(({ name }) => name)

    expect([...new Set(MUTANTS.map(({ rule }) => rule))].toSorted()).toEqual([...names].toSorted())
    expect(new Set(names).size).toBe(names.length)
    expect(new Set(STACK_RULES.map(({ number }) => number))).toEqual(
      new Set(Array.from({ length: 40 }, (_, i) => i + 1)),
    )
  })
})

describe('a value that is unknown during planning never passes if a rule reads it', () => {
  const places = MUTANTS.filter(
    ({ path, mayBeUnknown, rule }) => !path.startsWith('!') && !mayBeUnknown && rule !== 'secrets',
  )

  test.each(
    places.flatMap((mutant) =>
      [
        { $unknown: 'urn:pulumi:prod::agentweaver::azure-native:network:NatGateway::other' },
        { $secret: true } as const,
      ].map((marker) => ({ ...mutant, marker })),
    ),
  )('$rule: $of $path as $marker', ({ rule, of, path, run, marker }) => {
    const found = told(changed(recordedPlan(`${run}-new`), of, [path, marker]))

    expect(found).toContain(rule)
  })
})

test('docs/stack-policy.md has the rules as they are (node test/policies/stack/write-tables.ts writes them)', () => {
  const page = readFileSync(new URL('../../../docs/stack-policy.md', import.meta.url), 'utf8')

  expect(page).toBe(withRules(page))
})
