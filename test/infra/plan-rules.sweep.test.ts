import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Plan, PlannedResource } from '../../contracts/planned-resource.ts'
import { checkStack, STACK_RULES } from '../../policies/stack/rules.ts'
import { shapesFolder } from '../../tools/azure-shapes/cache.ts'
import {
  checkShapes,
  loadShapes,
  type Shapes,
  typesWithoutShape,
} from '../../tools/azure-shapes/check-shapes.ts'
import { hiddenObjects } from '../../tools/azure-shapes/hidden-objects.ts'

const FOLDER = resolve(import.meta.dirname, '../../plans')
const PLANS = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.json'))
  .map((file) => [file, JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as Plan] as const)

const TYPES = PLANS.flatMap(([, { resources }]) => resources.map(({ type }) => type))
let shapes: Shapes
beforeAll(async () => {
  shapes = await loadShapes(TYPES, shapesFolder(process.env['XDG_CACHE_HOME']))
})

/**
 * Objects that the SDK's defaults hide completely because of one id in them that Azure creates. A reader of the plan
 * does not see their other fields, and no rule reads them. The subnet of an endpoint contains only its id.
 */
const HIDDEN: Readonly<Record<string, readonly string[]>> = {
  'prod.json': ['azure-native:network:PrivateEndpoint::agentweaver-prod-endpoint subnet'],
  'prod-cluster.json': ['azure-native:network:PrivateEndpoint::agentweaver-prod-endpoint subnet'],
}

describe.each(PLANS)('the committed plan %s', (file, plan) => {
  test('follows all forty rules', () => {
    expect(plan.resources.length).toBeGreaterThan(10)
    expect(checkStack(plan)).toEqual([])
  })

  test('has only inputs that Azure’s own types and ranges accept', () => {
    expect(checkShapes(plan, shapes)).toEqual([])
  })

  test('shows every object of Azure except the listed ones', () => {
    const hidden = hiddenObjects(plan, shapes).map(({ urn, path }) => `${urn.split('$').at(-1)} ${path}`)

    expect(hidden).toEqual(HIDDEN[file] ?? [])
  })

  test('has a known shape for every Azure resource', () => {
    const others = typesWithoutShape(plan).filter((type) => !/^(?:kubernetes|pulumi):/.test(type))

    expect(others).toEqual([])
  })
})

const [, prod] = PLANS.find(([file]) => file === 'prod.json') ?? []
const isPool = ({ type }: PlannedResource) => type === 'azure-native:containerservice:AgentPool'

/** The plan with an input of every pool changed. */
const withPools = (inputs: PlannedResource['inputs']): Plan => ({
  project: 'agentweaver',
  stack: 'prod',
  outputs: {},
  resources: (prod?.resources ?? []).map((one) =>
    isPool(one) ? { ...one, inputs: { ...one.inputs, ...inputs } } : one,
  ),
})

test('rules and shapes find a planted mistake in these plans', () => {
  const rules = checkStack(withPools({ enableNodePublicIP: true })).map(({ rule }) => rule)
  const problems = checkShapes(withPools({ mode: 'user' }), shapes).map(({ path }) => path)

  expect([...new Set(rules)]).toEqual(['node-public-ip'])
  expect(problems).toEqual(['mode', 'mode'])
})

test('every rule about resources matches at least one, except rules for resources that the program does not create', () => {
  const idle = STACK_RULES.filter(
    ({ resource }) => resource?.types && !resource.types.some((type) => TYPES.includes(type)),
  )

  expect(idle.map(({ name }) => name)).toEqual(['storage'])
})
