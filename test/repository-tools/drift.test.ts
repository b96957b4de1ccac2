import { expect, test } from 'vitest'
import { driftPage, judgeDrift } from '../../tools/drift/judge-drift.ts'

const URN = (type: string, name = 'x') =>
  `urn:pulumi:dev::agentweaver::agentweaver:infra:Cluster$${type}::${name}`
const POOL = 'azure-native:containerservice:AgentPool'
const VAULT = 'azure-native:keyvault:Vault'
const step = (op: string, type: string, more: object = {}) => ({ op, urn: URN(type), ...more })
const judge = (...steps: object[]) => judgeDrift(JSON.stringify({ steps }))
const changed = (...paths: string[]) => ({
  detailedDiff: Object.fromEntries(paths.map((path) => [path, {}])),
})

test.each([
  ['the autoscaler’s count', step('update', POOL, changed('count')), true],
  [
    'versions that an upgrade brings',
    step('update', POOL, changed('nodeImageVersion', 'orchestratorVersion')),
    true,
  ],
  ['a taint beside the count', step('update', POOL, changed('count', 'nodeTaints')), false],
  ['a vault that was opened', step('update', VAULT, changed('properties.networkAcls.defaultAction')), false],
  ['a pool that is gone', step('delete', POOL), false],
  ['a change that nothing tells of', step('update', POOL), false],
  ['the same word on another type', step('update', VAULT, changed('count')), false],
  ['what reasons tell', step('update', POOL, { diffReasons: ['count'] }), true],
  [
    'what states tell',
    step('refresh', VAULT, { oldState: { outputs: { a: 1, b: 2 } }, newState: { outputs: { a: 1, b: 3 } } }),
    false,
  ],
])('%s is expected: %j', (_, one, isExpected) => {
  expect(judge(one).map((drift) => drift.isExpected)).toEqual([isExpected])
})

test('reports no drift for an unchanged object', () => {
  expect(judge(step('same', POOL), step('refresh', VAULT), step('read', VAULT))).toEqual([])
  expect(driftPage([])).toBe('No drift.\n')
})

test('the page lists names and paths, unexpected changes first, and no value', () => {
  const page = driftPage(
    judge(
      step('update', POOL, changed('count')),
      step('update', VAULT, { detailedDiff: { tags: { inputDiff: 'hunter2' } } }),
    ),
  )

  expect(page.split('\n')[2]).toContain('**drift** | update | `azure-native:keyvault:Vault`')
  expect(page).not.toContain('hunter2')
})

test.each(['', '{}', 'error: no', '{"steps":[{}]}'])('%j is no digest: silence is no health', (text) => {
  expect(() => judgeDrift(text)).toThrow()
})
