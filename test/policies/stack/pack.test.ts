import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Plan } from '../../../contracts/planned-resource.ts'
import { STACK_RULES } from '../../../policies/stack/rules.ts'
import { changed, goodPlan } from './good-plan.ts'
import { MUTANTS } from './mutants.ts'
import { type Diagnostic, type RunningPack, startPack } from './running-pack.ts'

let pack: RunningPack

beforeAll(async () => {
  pack = await startPack()
})
afterAll(() => pack.stop())

/** All that the engine would be told, of one resource and at the end. */
async function told(plan: Plan, of?: string): Promise<Diagnostic[]> {
  const asked = plan.resources.filter(
    ({ type, name }) => of === undefined || `${type} ${name}`.endsWith(of.replace('azure-native:', '')),
  )
  const each = await Promise.all(asked.map((resource) => pack.analyze(resource)))
  return [...each.flat(), ...(await pack.analyzeStack(plan))]
}
const rulesOf = (found: readonly Diagnostic[]) => [
  ...new Set(found.map(({ policy }) => policy.replace(/-stack$/, ''))),
]

test('offers every rule that can run by the engine, and names each once', async () => {
  const { name, policies } = await pack.info()
  const rules = policies.map((policy) => policy.replace(/-stack$/, ''))

  expect(name).toBe('agentweaver-stack')
  expect(new Set(policies).size).toBe(policies.length)
  expect(new Set(rules)).toEqual(
    new Set(STACK_RULES.filter(({ planOnly }) => !planOnly).map((rule) => rule.name)),
  )
})

test.each(['prod', 'dev', 'pr-12-abcdef'])('lets the good plan of %s pass', async (stack) => {
  expect(await told(goodPlan(stack))).toEqual([])
})

test.each(['dev', 'prod', 'pr-example'])('lets the committed plan of %s pass', async (stack) => {
  const file = new URL(`../../../plans/${stack}.json`, import.meta.url)
  const plan = JSON.parse(readFileSync(file, 'utf8')) as Plan

  expect(plan.resources.length).toBeGreaterThan(20)
  expect(await told(plan)).toEqual([])
})

describe('by the protocol of the engine each weakening is found by the same rule', () => {
  const seen = MUTANTS.filter(({ rule, path }) => rule !== 'secrets' && path !== '!type')

  test.each(seen.map((mutant, index) => ({ ...mutant, index })))(
    '$rule: $of $path ($index)',
    async ({ rule, of, path, value, says, stack }) => {
      const found = await told(changed(goodPlan(stack), of, [path, value]), of)
      const level = STACK_RULES.find(({ name }) => name === rule)?.level

      expect(rulesOf(found)).toEqual([rule])
      expect(found.map(({ message }) => message).join('\n')).toMatch(says)
      expect(found.every(({ isMandatory }) => isMandatory === (level === 'mandatory'))).toBe(true)
    },
  )
})

test('a value that is not known in a preview is refused, where the SDK alone would only advise', async () => {
  const plan = changed(goodPlan(), 'containerservice:AgentPool kata1', ['osSKU', { $unknown: '' }])
  const found = await told(plan, 'containerservice:AgentPool kata1')

  expect(found).toMatchObject([{ policy: 'kata-os', isMandatory: true }])
  expect(found[0]?.message).toContain('osSKU is not known while planning')
})

describe('at the end of a run, where Azure has left out what is part of a path', () => {
  /** Outputs as the provider gives them: everything known, the name under `name`, no parents of the path. */
  function made(plan: Plan): Plan {
    const known = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value), (_, inner) => (inner?.$unknown ? 'known' : inner))
    const names = [
      'resourceName',
      'configName',
      'federatedIdentityCredentialResourceName',
      'vaultName',
      'resourceUri',
      'agentPoolName',
    ]
    return {
      ...plan,
      resources: plan.resources.map((resource) => ({
        ...resource,
        inputs: Object.fromEntries(
          Object.entries(resource.inputs).flatMap(([key, value]) =>
            names.includes(key) ? [] : [[key, known(value)]],
          ),
        ) as Plan['resources'][number]['inputs'],
      })),
    }
  }
  /** The names, where the provider puts them. */
  function withNames(plan: Plan): Plan {
    return {
      ...made(plan),
      resources: made(plan).resources.map((resource, index) => {
        const before = plan.resources[index]!.inputs
        const own = ['configName', 'federatedIdentityCredentialResourceName', 'resourceName', 'vaultName']
          .map((key) => before[key])
          .find((value) => typeof value === 'string')
        return {
          ...resource,
          inputs: { ...resource.inputs, ...(own !== undefined && { name: own as string }) },
        }
      }),
    }
  }
  const asked = (plan: Plan) => pack.analyzeStack(plan, goodPlan(plan.stack))

  test('the good stack passes still', async () => {
    expect(await asked(withNames(goodPlan()))).toEqual([])
  })

  test('a missing window, a missing chain and a secret officer are found still', async () => {
    const OFFICER =
      '/subscriptions/s/providers/Microsoft.Authorization/roleDefinitions/b86a8fe4-44ce-4948-aee5-eccb2c155cd7'
    const noWindow = {
      ...goodPlan(),
      resources: goodPlan().resources.filter(({ name }) => name !== 'aksManagedAutoUpgradeSchedule'),
    }
    const noChain = changed(goodPlan(), 'managedidentity:FederatedIdentityCredential agent-host-old', [
      '!dependencies',
      [],
    ])
    const officer = changed(goodPlan(), 'authorization:RoleAssignment agent-host', [
      'roleDefinitionId',
      OFFICER,
    ])

    expect(rulesOf(await asked(withNames(noWindow)))).toEqual(['upgrades'])
    expect(rulesOf(await asked(withNames(noChain)))).toEqual(['fic-serial'])
    expect(rulesOf(await asked(withNames(officer)))).toEqual(['rbac-split'])
  })
})

describe('what --policy-pack-config sets', () => {
  afterAll(() => pack.configure({}))

  test('decides about regions and the size of Kata pools', async () => {
    await pack.configure({ regions: { allowed: ['westeurope'] }, 'kata-taint': { maxNodes: 2 } })

    expect(rulesOf(await told(goodPlan()))).toEqual(expect.arrayContaining(['regions', 'kata-taint']))

    await pack.configure({ regions: { allowed: ['swedencentral'] }, 'kata-taint': { maxNodes: 5 } })

    expect(await told(goodPlan())).toEqual([])
  })
})
