import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Plan, PlannedValue } from '../../../contracts/planned-resource.ts'
import type { RuledResource } from '../../../policies/stack/rule.ts'
import { changed, recordedPlan } from './recorded-plan.ts'

/**
 * The tests of the rules read recordings, so a recording that is older than the program would let a rule pass on inputs
 * that Azure no longer receives. Recording needs the Pulumi CLI; this comparison does not, so it runs in `npm test`.
 */
const STACKS = [
  ['dev-new', 'dev'],
  ['prod-new', 'prod'],
  ['slice-new', 'pr-example'],
] as const

const committed = (stack: string): Plan =>
  JSON.parse(readFileSync(new URL(`../../../plans/${stack}.json`, import.meta.url), 'utf8')) as Plan

/** Values that only the provider knows are marked differently in plans and recordings. */
function comparable(value: PlannedValue): unknown {
  if (Array.isArray(value)) return value.map(comparable)
  if (typeof value !== 'object' || value === null) return value
  if ('$unknown' in value) return '(unknown)'
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, comparable(inner)]))
}

/** Inputs by URN. The provider's check adds the API version after the program has sent its inputs. */
function azureInputs(resources: readonly Pick<RuledResource, 'urn' | 'type' | 'inputs'>[]) {
  const rows = resources
    .filter(({ type }) => type.startsWith('azure-native:'))
    .map(({ urn, inputs: { azureApiVersion: _, ...inputs } }) => [urn, comparable(inputs)] as const)
  return Object.fromEntries(rows)
}

test.each(STACKS)('the recording %s has the inputs of the committed plan of %s', (name, stack) => {
  const recorded = azureInputs(recordedPlan(name).resources)

  expect(Object.keys(recorded).length).toBeGreaterThan(5)
  expect(recorded, 'npm run test:pulumi -- --record').toEqual(azureInputs(committed(stack).resources))
})

test('finds a setting of a pool that the recording lacks', () => {
  const pool = 'containerservice:AgentPool agentweaver-dev-kata1'
  const old = changed(recordedPlan('dev-new'), pool, ['localDNSProfile', undefined])

  expect(azureInputs(old.resources)).not.toEqual(azureInputs(committed('dev').resources))
})
