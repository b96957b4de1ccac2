import { describe, expect, test } from 'vitest'
import type { RuledPlan } from '../../../policies/stack/rule.ts'
import { checkResource, checkStack, STACK_RULES } from '../../../policies/stack/rules.ts'
import { DEFAULT_SETTINGS } from '../../../policies/stack/settings.ts'
import { changed, recordedPlan } from './recorded-plan.ts'

const told = (plan: RuledPlan) => checkStack(plan).map(({ rule, message }) => `${rule}: ${message}`)
const rulesOf = (plan: RuledPlan) => [...new Set(checkStack(plan).map(({ rule }) => rule))]

describe('the origin of a value', () => {
  const METRICS = 'monitor:DataCollectionRuleAssociation agentweaver-prod-dcra'
  const stack = 'urn:pulumi:prod::agentweaver::agentweaver:infra'
  const cluster = `${stack}:Cluster$azure-native:containerservice:ManagedCluster::agentweaver-prod`

  test.each([
    `${stack}:Network$azure-native:network:Subnet::agentweaver-prod-nodes ${cluster}`,
    `${cluster}, ${stack}:ClusterMonitoring$azure-native:monitor:DataCollectionRule::agentweaver-prod-dcr`,
    `${cluster}#id`,
  ])('is read from %s', (origin) => {
    expect(told(changed(recordedPlan(), METRICS, ['resourceUri', { $unknown: `${origin}` }]))).toEqual([])
  })

  test.each([
    `${cluster}-2`,
    `x${cluster}`,
    `${cluster}_`,
    'containerservice:ManagedCluster',
    'the provider',
    '',
  ])('is another in %s', (origin) => {
    expect(rulesOf(changed(recordedPlan(), METRICS, ['resourceUri', { $unknown: origin }]))).toEqual([
      'metrics-wired',
    ])
  })

  test('determines the kind of a scope', () => {
    const group = changed(recordedPlan('others-new'), 'authorization:RoleAssignment api-on-group', [
      'scope',
      { $unknown: 'urn:pulumi:prod::agentweaver::azure-native:resources:ResourceGroup::group' },
    ])

    expect(told(group)).toEqual([])
    expect(
      rulesOf(changed(group, 'authorization:RoleAssignment api-on-group', ['condition', undefined])),
    ).toEqual(['rbac-scope'])
  })

  test('does not tell a single resource: the engine shows that at the end alone', () => {
    const vault = { $unknown: 'urn:pulumi:prod::agentweaver::azure-native:keyvault:Vault::user-tokens' }
    const owner = changed(recordedPlan('others-new'), 'authorization:RoleAssignment api-on-group', [
      'scope',
      vault,
    ])
    const unconditional = changed(owner, 'authorization:RoleAssignment api-on-group', [
      'condition',
      undefined,
    ])
    const [rule] = STACK_RULES.filter(({ name }) => name === 'rbac-scope')
    const context = { environment: 'production', settings: DEFAULT_SETTINGS } as const

    expect(unconditional.resources.flatMap((one) => checkResource(rule!, one, context))).toEqual([])
    expect(told(unconditional)).toEqual([])
  })
})
