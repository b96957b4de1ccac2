import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Plan } from '../../../contracts/planned-resource.ts'
import { checkStack, STACK_RULES } from '../../../policies/stack/rules.ts'
import { changed, goodPlan } from './good-plan.ts'
import { MUTANTS } from './mutants.ts'
import { withRules } from './tables.ts'

const told = (plan: Plan) => checkStack(plan).map(({ rule }) => rule)

test.each(['prod', 'dev', 'pr-12-abcdef', 'staging'])('finds nothing in the good plan of %s', (stack) => {
  expect(checkStack(goodPlan(stack))).toEqual([])
})

describe('each weakening is found by its rule alone, which says what to change and where', () => {
  test.each(MUTANTS.map((mutant, index) => ({ ...mutant, index })))(
    '$rule: $of $path ($index)',
    ({ rule, of, path, value, says, stack }) => {
      const found = checkStack(changed(goodPlan(stack), of, [path, value]))

      expect(found.map((one) => one.rule).filter((name, i, all) => all.indexOf(name) === i)).toEqual([rule])
      expect(found.map(({ message }) => message).join('\n')).toMatch(says)
      for (const { urn, message, path: at } of found) {
        expect(urn).toMatch(/^urn:pulumi:/)
        expect(message.startsWith(at)).toBe(true)
      }
    },
  )

  test('every rule has one', () => {
    const names = STACK_RULES.map(({ name }) => name)

    expect([...new Set(MUTANTS.map(({ rule }) => rule))].toSorted()).toEqual([...names].toSorted())
    expect(new Set(names).size).toBe(names.length)
    expect(new Set(STACK_RULES.map(({ number }) => number))).toEqual(
      new Set(Array.from({ length: 40 }, (_, i) => i + 1)),
    )
  })
})

describe('a value that is not known while planning never passes where a rule reads it', () => {
  const places = MUTANTS.filter(
    ({ path, mayBeUnknown, rule }) => !path.startsWith('!') && !mayBeUnknown && rule !== 'secrets',
  )

  test.each(
    places.flatMap((mutant) =>
      [
        { $unknown: 'urn:pulumi:prod::agentweaver::azure-native:network:VirtualNetwork::net' },
        { $secret: true } as const,
      ].map((marker) => ({ ...mutant, marker })),
    ),
  )('$rule: $of $path as $marker', ({ rule, of, path, stack, marker }) => {
    const found = told(changed(goodPlan(stack), of, [path, marker]))

    expect(found).toContain(rule)
  })
})

test('docs/stack-policy.md has the rules as they are (node scripts/stack-policy-docs.ts writes them)', () => {
  const page = readFileSync(new URL('../../../docs/stack-policy.md', import.meta.url), 'utf8')

  expect(page).toBe(withRules(page))
})
