import { readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Plan } from '../../contracts/planned-resource.ts'
import { checkShapes, loadShapes, type Shapes } from '../../infra/shapes/check-shapes.ts'
import { checkStack } from '../../policies/stack/rules.ts'

const FOLDER = resolve(import.meta.dirname, '../../plans')
const PLANS = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.json'))
  .map((file) => [file, JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as Plan] as const)

describe.each(PLANS)('the committed plan %s', (_file, plan) => {
  let shapes: Shapes
  beforeAll(async () => {
    shapes = await loadShapes(
      plan.resources.map(({ type }) => type),
      join(tmpdir(), 'agentweaver-shapes'),
    )
  }, 120_000)

  test('keeps all forty rules', () => {
    expect(checkStack(plan).map(({ rule, urn, message }) => `${rule} ${urn} ${message}`)).toEqual([])
  })

  test('has only inputs that Azure’s own types and ranges take', () => {
    expect(checkShapes(plan, shapes)).toEqual([])
  })
})

test('rules and shapes do read these plans: a planted mistake is found by both', async () => {
  const [, dev] = PLANS.find(([file]) => file === 'dev.json') ?? []
  if (dev === undefined) throw new Error('no plan of dev')
  const planted: Plan = {
    ...dev,
    resources: dev.resources.map((one) =>
      one.name === 'agentweaver-dev-kata1'
        ? { ...one, inputs: { ...one.inputs, workloadRuntime: 'Kata' } }
        : one,
    ),
  }
  const type = 'azure-native:containerservice:AgentPool'
  const shapes = await loadShapes([type], join(tmpdir(), 'agentweaver-shapes'))

  expect(checkStack(planted).map(({ rule }) => rule)).toContain('no-legacy-runtime')
  const found = checkShapes(
    { ...planted, resources: planted.resources.filter((one) => one.type === type) },
    shapes,
  )
  expect(found.map(({ path }) => path)).toEqual(['workloadRuntime'])
})
