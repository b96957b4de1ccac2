import { describe, expect, test } from 'vitest'
import type { PlannedValue } from '../../../contracts/planned-resource.ts'
import { customRoleGuid } from '../../../infra/model/naming.ts'
import type { RuledPlan as Plan, RuledResource, StackRule } from '../../../policies/stack/rule.ts'
import { checkStack, checkWhole } from '../../../policies/stack/rules.ts'
import { DEFAULT_SETTINGS, environmentOf } from '../../../policies/stack/settings.ts'
import { changed, recordedPlan } from './recorded-plan.ts'

const told = (plan: Plan) => checkStack(plan).map(({ rule, message }) => `${rule}: ${message}`)
const rulesOf = (plan: Plan) => [...new Set(checkStack(plan).map(({ rule }) => rule))]

function added(plan: Plan, type: string, inputs: { readonly [key: string]: PlannedValue } = {}): Plan {
  const resource: RuledResource = {
    urn: `urn:pulumi:${plan.stack}::agentweaver::${type}::added`,
    type,
    name: 'added',
    custom: true,
    inputs,
    dependencies: [],
    protect: false,
    ignoreChanges: [],
    retainOnDelete: false,
  }
  return { ...plan, resources: [...plan.resources, resource] }
}
const without = (plan: Plan, of: string): Plan => ({
  ...plan,
  resources: plan.resources.filter(({ type, name }) => `${type} ${name}` !== of),
})
const tags = { env: 'x', owner: 'x', costCenter: 'x', managedBy: 'x', expires: '2027-01-31T00:00:00Z' }

describe('the kind of a stack', () => {
  test.each([
    ['dev', 'development'],
    ['dev-2', 'development'],
    ['pr-12-abcdef', 'preview'],
    ['prod', 'production'],
    ['devil', 'production'],
    ['live', 'production'],
    ['pr-', 'production'],
    ['Dev', 'production'],
    ['', 'production'],
  ])('%s is for %s', (stack, environment) => {
    expect(environmentOf(stack)).toBe(environment)
  })
})

describe('added resources', () => {
  test.each([
    ['azure-native:keyvault:AccessPolicy', 'kv-no-access-policies', /assign a role instead/],
    ['azure-native:dbforpostgresql:FirewallRule', 'pg-private', /opens a database to addresses/],
    ['azure-native:resources:Deployment', 'no-preview-api', /whose contents no rule can check/],
    ['azure-native:resources:Resource', 'no-preview-api', /whose contents no rule can check/],
    ['azure-native:containerservice:IdentityBinding', 'no-preview-api', /uses a preview API of Azure/],
    [
      'azure:containerservice/kubernetesCluster:KubernetesCluster',
      'no-preview-api',
      /from a provider that the rules do not know/,
    ],
    ['pulumi-nodejs:dynamic:Resource', 'no-preview-api', /from a provider that the rules do not know/],
    ['azure-native:containerservice/v20250901:ManagedCluster', 'names', /whose name limits are unknown/],
    ['azure-native:somewhere:Thing', 'names', /whose name limits are unknown/],
  ])('a %s is found by %s', (type, rule, says) => {
    const found = checkStack(added(recordedPlan(), type)).filter((one) => one.rule === rule)

    expect(found.map(({ message }) => message).join()).toMatch(says)
  })

  test('an administrator of a database may be an identity to come, and else is a GUID', () => {
    const administrator = (objectId: PlannedValue) =>
      rulesOf(
        added(recordedPlan(), 'azure-native:dbforpostgresql:AdministratorsMicrosoftEntra', { objectId }),
      )

    expect(administrator({ $unknown: 'urn:pulumi:prod::agentweaver::identity' })).not.toContain('names')
    expect(administrator('the-administrators')).toContain('names')
  })

  test('templates are found in development too, preview types only in production', () => {
    expect(rulesOf(added(recordedPlan('dev-new'), 'azure-native:resources:Deployment'))).toContain(
      'no-preview-api',
    )
    expect(
      rulesOf(added(recordedPlan('dev-new'), 'azure-native:containerservice:IdentityBinding')),
    ).not.toContain('no-preview-api')
  })

  test('a second budget is one too many, in a stack that has a cluster', () => {
    const budget = { scope: 'x', budgetName: 'second' }
    const twice = added(recordedPlan(), 'azure-native:consumption:Budget', budget)

    expect(told(twice)).toEqual(['budget: has 2 budgets: create exactly one'])
  })

  test('a second NAT gateway is reported only outside production', () => {
    const inputs = { natGatewayName: 'second', location: 'swedencentral', tags }

    expect(rulesOf(added(recordedPlan('dev-new'), 'azure-native:network:NatGateway', inputs))).toEqual([
      'cost',
    ])
    expect(rulesOf(added(recordedPlan(), 'azure-native:network:NatGateway', inputs))).toEqual([])
  })

  test('a Grafana is reported only in previews', () => {
    const inputs = { workspaceName: 'grafana', location: 'swedencentral', tags }

    expect(rulesOf(added(recordedPlan('slice-new'), 'azure-native:dashboard:Grafana', inputs))).toEqual([
      'cost',
    ])
    expect(rulesOf(added(recordedPlan('dev-new'), 'azure-native:dashboard:Grafana', inputs))).toEqual([])
  })

  test('an output that holds a secret is found, by its name, unless it is marked', () => {
    const outputs = { connectionString: 'x', nested: { adminPassword: { $unknown: '' } } }

    expect(told({ ...recordedPlan(), outputs })).toEqual([
      'secrets: connectionString is an output that is not marked secret: wrap it in pulumi.secret, or do not export it',
      'secrets: nested.adminPassword is an output that is not marked secret: wrap it in pulumi.secret, or do not export it',
    ])
    expect(told({ ...recordedPlan(), outputs: { connectionString: { $secret: true } } })).toEqual([])
  })

  test("a provider's kubeconfig and a Secret of Kubernetes must be marked", () => {
    expect(
      told(added(recordedPlan(), 'pulumi:providers:kubernetes', { kubeconfig: { $unknown: '' } })),
    ).toHaveLength(1)
    expect(
      told(added(recordedPlan(), 'pulumi:providers:kubernetes', { kubeconfig: { $secret: true } })),
    ).toEqual([])
    expect(told(added(recordedPlan(), 'kubernetes:core/v1:Secret', { stringData: { a: 'b' } }))).toHaveLength(
      1,
    )
    expect(
      told(added(recordedPlan(), 'kubernetes:core/v1:Secret', { stringData: { $secret: true } })),
    ).toEqual([])
  })

  test('twenty-one credentials of one identity are one too many', () => {
    const plan = recordedPlan()
    const credential = plan.resources.find(({ name }) => name === 'agentweaver-prod-api-agentweaver')!
    const more = Array.from({ length: 20 }, (_, index) => ({
      ...credential,
      urn: `${credential.urn}-${index}`,
      name: `api-${index}`,
      dependencies: [index === 0 ? credential.urn : `${credential.urn}-${index - 1}`],
    }))

    expect(told({ ...plan, resources: [...plan.resources, ...more] })).toEqual([
      'fic-serial: has 21 federated credentials; Azure allows 20',
    ])
  })
})

describe('missing resources', () => {
  test.each([
    ['azure-native:monitor:DataCollectionRuleAssociation agentweaver-prod-dcra', 'metrics-wired'],
    ['azure-native:consumption:Budget agentweaver-prod', 'budget'],
    [
      'azure-native:containerservice:MaintenanceConfiguration agentweaver-prod-aksManagedAutoUpgradeSchedule',
      'upgrades',
    ],
  ])('%s is missed by %s', (of, rule) => {
    expect(rulesOf(without(recordedPlan(), of))).toEqual([rule])
  })

  test('a role of our own that is not in the plan is nothing that a sandbox may hold', () => {
    const plan = without(recordedPlan('others-new'), 'azure-native:authorization:RoleDefinition getter')

    // The plan does not contain the origin of the role's id either.
    expect(rulesOf(plan)).toEqual(['rbac-scope', 'rbac-split'])
  })

  test('an identity that is missing from the plan is reported, because its rights cannot be checked', () => {
    const found = rulesOf(
      without(recordedPlan('others-new'), 'azure-native:managedidentity:UserAssignedIdentity agent-host'),
    )

    expect(found).toContain('rbac-split')
    expect(found).toContain('fic-serial')
  })
})

describe('accepted alternatives', () => {
  const CLUSTER = 'containerservice:ManagedCluster agentweaver-prod'

  test('a private cluster needs no ranges', () => {
    const access = { disableRunCommand: true, enablePrivateCluster: true }

    expect(told(changed(recordedPlan(), CLUSTER, ['apiServerAccessProfile', access]))).toEqual([])
  })

  test.each(['proxy', 'closed'])('policies by name may be off if the tag egress is %s', (mode) => {
    const tagged = changed(recordedPlan(), CLUSTER, ['tags.egress', mode])

    expect(told(changed(tagged, CLUSTER, ['networkProfile.advancedNetworking', undefined]))).toEqual([])
  })

  test('an account of files may be mounted without TLS and with its key', () => {
    const STORAGE = 'storage:StorageAccount storage'
    const files = changed(recordedPlan('others-new'), STORAGE, ['kind', 'FileStorage'])
    const open = changed(files, STORAGE, ['enableHttpsTrafficOnly', false])

    expect(told(changed(open, STORAGE, ['allowSharedKeyAccess', true]))).toEqual([])
  })

  test('an association names the cluster by the end of its id, in any case', () => {
    const id =
      '/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/AGENTWEAVER-PROD'

    expect(
      told(
        changed(recordedPlan(), 'monitor:DataCollectionRuleAssociation agentweaver-prod-dcra', [
          'resourceUri',
          id,
        ]),
      ),
    ).toEqual([])
  })

  test('a resource of another cluster does not stand in for this one', () => {
    const other = {
      $unknown:
        'urn:pulumi:prod::agentweaver::agentweaver:infra:Platform$azure-native:containerservice:ManagedCluster::cluster-2',
    }

    expect(
      rulesOf(
        changed(recordedPlan(), 'monitor:DataCollectionRuleAssociation agentweaver-prod-dcra', [
          'resourceUri',
          other,
        ]),
      ),
    ).toEqual(['metrics-wired'])
  })
})

describe('the secret getter that the bootstrap defines for a platform', () => {
  const of = 'authorization:RoleAssignment agent-host'
  const SUBSCRIPTION = '5f0a3a86-7d0f-4c5e-9a57-0d4b6c1f2e11'
  const scope = `/subscriptions/${SUBSCRIPTION}/resourceGroups/agentweaver-dev/providers/Microsoft.KeyVault/vaults/v`
  const roleOf = (name: string) =>
    `/subscriptions/${SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/${customRoleGuid(SUBSCRIPTION, name)}`
  const granted = (name: string) =>
    changed(recordedPlan('others-new'), of, ['roleDefinitionId', roleOf(name)])
  const on = (name: string, at: PlannedValue) => rulesOf(changed(granted(name), of, ['scope', at]))

  test('may be held on a vault of that platform, made by this stack or another', () => {
    expect(on('agentweaver-dev-secret-getter', scope)).toEqual([])
    expect(rulesOf(granted('agentweaver-x-secret-getter'))).toEqual([])
  })

  test('may not be granted on a larger scope, on an unknown resource, or under another name', () => {
    const other = {
      $unknown: 'urn:pulumi:prod::agentweaver::azure-native:storage:StorageAccount::storage',
    }

    expect(on('agentweaver-dev-secret-setter', scope)).toEqual(['rbac-split'])
    expect(on('agentweaver-prod-secret-getter', scope)).toEqual(['rbac-split'])
    expect(on('agentweaver-dev-secret-getter', scope.replace(/\/providers.*/, ''))).toEqual(['rbac-split'])
    expect(on('agentweaver-x-secret-getter', other)).toEqual(['rbac-split'])
    expect(on('agentweaver-x-secret-getter', { $unknown: '' })).toEqual(['rbac-split'])
    expect(rulesOf(granted('agentweaver-dev-secret-getter'))).toEqual(['rbac-split'])
  })
})

test.each(['apiServerAccessProfile', 'agentPoolProfiles', 'properties.networkAcls', '*'])(
  'an ignored property is reported, because it could be weakened unnoticed: %s',
  (path) => {
    const ignoring = changed(recordedPlan(), 'containerservice:ManagedCluster agentweaver-prod', [
      '!ignoreChanges',
      ['agentPoolProfiles[0].count', path],
    ])

    expect(rulesOf(ignoring)).toEqual(['autoscale'])
  },
)

test.each([
  ['dev-new', 'containerregistry:Registry agentweaver-dev'],
  ['slice-new', 'managedidentity:UserAssignedIdentity agentweaver-dev-pr-example-50d858-api'],
])('a stack other than production (%s) cannot create resources tagged as production', (name, of) => {
  const tagged = changed(recordedPlan(name), of, ['tags.env', 'prod'])

  expect(rulesOf(tagged)).toEqual(['tags'])
})

test.each([
  '/subscriptions/s',
  '/subscriptions/s/resourceGroups/x/',
  '//subscriptions/s/resourceGroups/x',
  '/',
  '',
  '/providers/Microsoft.Management/managementGroups/m',
  '/subscriptions/s/resourceGroups/x/providers/Microsoft.KeyVault',
  'somewhere',
])('a scope that is not one resource counts as wide: %s', (scope) => {
  const of = 'authorization:RoleAssignment api-on-group'
  const unconditional = changed(recordedPlan('others-new'), of, ['condition', undefined])
  const at = changed(unconditional, of, ['scope', `${scope}`])

  expect(rulesOf(at)).toEqual(['rbac-scope'])
})

test('a role that gives rights away may be held on one resource', () => {
  const of = 'authorization:RoleAssignment api-on-group'
  const scope = '/subscriptions/s/resourceGroups/x/providers/Microsoft.KeyVault/vaults/v/secrets/s'

  expect(
    told(changed(changed(recordedPlan('others-new'), of, ['condition', undefined]), of, ['scope', scope])),
  ).toEqual([])
})

test("a pool of a preview's own package is held to the rules of pools", () => {
  const type = 'azure-native_containerservice_v20260502preview:containerservice:AgentPool'
  const shim = changed(recordedPlan('dev-new'), 'containerservice:AgentPool agentweaver-dev-kata1', [
    '!type',
    type,
  ])
  const of = (plan: Plan): Plan => ({
    ...plan,
    resources: plan.resources.map((one) =>
      one.type === type ? { ...one, inputs: { ...one.inputs, osSKU: 'Ubuntu' } } : one,
    ),
  })

  expect(rulesOf(shim)).toEqual([])
  expect(rulesOf(of(shim))).toEqual(['kata-os'])
})

test('a rule that throws counts as violated', () => {
  const rule: StackRule = {
    number: 99,
    name: 'broken',
    level: 'mandatory',
    requires: '',
    reason: '',
    stack: () => {
      throw new Error('cannot read this')
    },
  }

  expect(
    checkWhole(rule, recordedPlan(), { environment: 'production', settings: DEFAULT_SETTINGS }),
  ).toMatchObject([
    { rule: 'broken', level: 'mandatory', message: 'the rule itself failed: cannot read this' },
  ])
})

test('settings decide about regions and the size of Kata pools', () => {
  const found = checkStack(recordedPlan(), { regions: ['westeurope'], kataMaxNodes: 2 }).map(
    ({ rule }) => rule,
  )

  expect(new Set(found)).toEqual(new Set(['regions', 'kata-taint']))
})
