import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RuledPlan } from '../../../policies/stack/rule.ts'
import { checkStack, STACK_RULES } from '../../../policies/stack/rules.ts'
import { MUTANTS } from './mutants.ts'
import { changed, recordedPlan } from './recorded-plan.ts'
import { RECORDINGS, readRecording } from './recording.ts'
import { type Diagnostic, type RunningPack, startPack } from './running-pack.ts'

let pack: RunningPack

beforeAll(async () => {
  pack = await startPack()
})
afterAll(() => pack.stop())

/** Returns all diagnostics that the engine receives in one run: for each resource's inputs, and at the end. */
async function told(plan: RuledPlan, recording: string): Promise<Diagnostic[]> {
  const found = await Promise.all(plan.resources.map((resource) => pack.analyze(resource)))
  return [...found.flat(), ...(await pack.analyzeStack(plan, readRecording(recording)))]
}

/**
 * Analyzes a plan with changed resources, then analyzes the same resources before the change. Returns the diagnostics
 * of the changed plan.
 */
async function toldOfChange(plan: RuledPlan, recording: string): Promise<Diagnostic[]> {
  const before = new Map(recordedPlan(recording).resources.map((one) => [one.urn, one]))
  const differing = plan.resources.filter((one) => !isDeepStrictEqual(one, before.get(one.urn)))
  const found = await Promise.all(differing.map((one) => pack.analyze(one)))
  const atEnd = await pack.analyzeStack(plan, readRecording(recording))
  await Promise.all(differing.map((one) => pack.analyze(before.get(one.urn) ?? one)))
  return [...found.flat(), ...atEnd]
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

describe.each(RECORDINGS)('by the protocol of the engine a weakening of %s is found as in a plan', (name) => {
  // One for each rule: rules.sweep.test.ts has them all, by the same code but for the protocol.
  const own = MUTANTS.filter(({ rule, run }) => rule !== 'secrets' && name.startsWith(run))
  const seen = own.filter(({ rule }, index) => own.findIndex((one) => one.rule === rule) === index)
  const levels = new Map(STACK_RULES.map((rule) => [rule.name, rule.level]))
  const ruleOf = (policy: string) => policy.replace(/-stack$/, '')

  test('finds nothing as long as nothing is weakened', async () => {
    expect(await told(recordedPlan(name), name)).toEqual([])
  })

  test.each(seen.map((mutant, index) => ({ ...mutant, index })))(
    '$rule: $of $path ($index)',
    async ({ of, path, value }) => {
      const plan = changed(recordedPlan(name), of, [path, value])
      const found = await toldOfChange(plan, name)

      // The SDK puts the policy's description on a separate line before the message.
      expect(
        found.map(({ policy, urn, message }) => [ruleOf(policy), urn, message.split('\n').at(-1)]).toSorted(),
      ).toEqual(
        checkStack(plan)
          .map(({ rule, urn, message }) => [rule, urn, message])
          .toSorted(),
      )
      expect(found.length).toBeGreaterThan(0)
      for (const { policy, isMandatory } of found)
        expect(isMandatory).toBe(levels.get(ruleOf(policy)) === 'mandatory')
    },
  )
})

test('a value that is unknown in a preview is rejected, although the SDK alone would only advise', async () => {
  const kata = 'containerservice:AgentPool agentweaver-prod-kata1'
  const plan = changed(recordedPlan(), kata, ['osSKU', { $unknown: '' }])
  const found = await told(plan, 'prod-new')

  expect(found).toMatchObject([{ policy: 'kata-os', isMandatory: true }])
  expect(found[0]?.message).toContain('osSKU is not known while planning')
})

test('a rule about the whole stack reads inputs: by outputs alone, parts of paths would be missing', async () => {
  const { resources } = readRecording('prod-there')
  const window = resources.find(({ type }) => type.endsWith(':MaintenanceConfiguration'))

  expect(Object.keys(window?.inputs ?? {})).toContain('configName')
  expect(Object.keys(window?.outputs ?? {})).not.toContain('configName')
})

test('what --target leaves out and is not there is not judged, and the least that is made is', async () => {
  const inputs = (value: RuledPlan['resources'][number]['inputs']) => ({
    ...recordedPlan(),
    resources: recordedPlan().resources.map((one) =>
      one.name.endsWith('-kata1') ? { ...one, inputs: value } : one,
    ),
  })

  expect(await toldOfChange(inputs({}), 'prod-new')).toEqual([])
  expect(rulesOf(await toldOfChange(inputs({ azureApiVersion: '2025-09-01' }), 'prod-new'))).toContain(
    'autoscale',
  )
})

describe('what --policy-pack-config sets', () => {
  afterAll(() => pack.configure({}))

  test('decides about regions and the size of Kata pools', async () => {
    await pack.configure({ regions: { allowed: ['westeurope'] }, 'kata-taint': { maxNodes: 2 } })

    expect(rulesOf(await told(recordedPlan(), 'prod-new'))).toEqual(
      expect.arrayContaining(['regions', 'kata-taint']),
    )

    await pack.configure({ regions: { allowed: ['eastus2'] }, 'kata-taint': { maxNodes: 20 } })

    expect(await told(recordedPlan(), 'prod-new')).toEqual([])
  })
})
