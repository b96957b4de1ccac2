import { resolve } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Plan, PlannedResource } from '../../contracts/planned-resource.ts'
import { makePlan } from '../../infra/plan/make-plan.ts'
import { shapesFolder } from '../../infra/shapes/cache.ts'
import { checkShapes, loadShapes, type Shapes, typesWithoutShape } from '../../infra/shapes/check-shapes.ts'
import { checkStack, STACK_RULES } from '../../policies/stack/rules.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const STACKS = ['dev', 'prod', 'pr-example']
const plans: Record<string, Plan> = {}
let shapes: Shapes

beforeAll(async () => {
  for (const stack of STACKS) plans[stack] = await makePlan(ROOT, stack)
  const types = Object.values(plans).flatMap(({ resources }) => resources.map(({ type }) => type))
  shapes = await loadShapes(types, shapesFolder(process.env['XDG_CACHE_HOME']))
}, 180_000)

const planOf = (stack: string): Plan => plans[stack] ?? { project: '', stack, resources: [], outputs: {} }
const isPool = ({ type }: PlannedResource) => type === 'azure-native:containerservice:AgentPool'

/** The plan with an input of every pool changed. */
const withPools = (plan: Plan, inputs: PlannedResource['inputs']): Plan => ({
  ...plan,
  resources: plan.resources.map((one) =>
    isPool(one) ? { ...one, inputs: { ...one.inputs, ...inputs } } : one,
  ),
})

describe.each(STACKS)('the plan of %s', (stack) => {
  test('breaks no rule', () => {
    expect(planOf(stack).resources.length).toBeGreaterThan(20)
    expect(checkStack(planOf(stack))).toEqual([])
  })

  test("has the shapes of Azure's own types, in every input of every resource of Azure", () => {
    expect(checkShapes(planOf(stack), shapes)).toEqual([])
  })

  test('has no resource of Azure that no shape is known for', () => {
    const others = typesWithoutShape(planOf(stack)).filter((type) => !/^(?:kubernetes|pulumi):/.test(type))

    expect(others).toEqual([])
  })
})

test('a weakening planted in a plan of the program is found', () => {
  const rules = checkStack(withPools(planOf('prod'), { enableNodePublicIP: true })).map(({ rule }) => rule)
  const problems = checkShapes(withPools(planOf('prod'), { mode: 'user' }), shapes)

  expect([...new Set(rules)]).toEqual(['node-public-ip'])
  expect(problems.map(({ path }) => path)).toEqual(
    planOf('prod')
      .resources.filter(isPool)
      .map(() => 'mode'),
  )
})

test('every rule about resources meets one in the plans, but for those of what the program does not make', () => {
  const types = new Set(Object.values(plans).flatMap(({ resources }) => resources.map(({ type }) => type)))
  const idle = STACK_RULES.filter(
    ({ resource }) => resource?.types && !resource.types.some((type) => types.has(type)),
  )

  expect(idle.map(({ name }) => name)).toEqual(['storage'])
})
