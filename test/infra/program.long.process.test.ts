import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { isSecret, isUnknown, type Plan, type PlannedResource } from '../../contracts/planned-resource.ts'
import { BUILT_IN_ROLES, secretGetter, secretWriter } from '../../infra/model/roles.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { runProgram } from '../../tools/offline-plan/engine/run-program.ts'
import { makePlan } from '../../tools/offline-plan/make-plan.ts'
import { serialize } from '../../tools/offline-plan/stored-plan.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const plans: Record<string, Plan> = {}
beforeAll(async () => {
  const stacks = ['dev', 'prod', 'pr-example']
  for (const stack of stacks) plans[stack] = await makePlan(ROOT, stack)
})

const ofType = (plan: Plan | undefined, type: string) =>
  plan?.resources.filter((one) => one.type === `azure-native:${type}`) ?? []
const only = (plan: Plan | undefined, type: string): PlannedResource => {
  const [one, ...more] = ofType(plan, type)
  if (one === undefined || more.length > 0)
    throw new Error(`${more.length + (one ? 1 : 0)} resources of ${type}`)
  return one
}
const urnsOf = (resources: readonly PlannedResource[]) => resources.map(({ urn }) => urn)

/** Whether one resource depends on another, directly or indirectly. */
function comesAfter(plan: Plan | undefined, later: PlannedResource, earlier: PlannedResource): boolean {
  const byUrn = new Map(plan?.resources.map((one) => [one.urn, one]))
  const seen = new Set<string>()
  const visit = (urn: string): boolean => {
    if (urn === earlier.urn) return true
    if (seen.has(urn)) return false
    seen.add(urn)
    return byUrn.get(urn)?.dependencies.some(visit) ?? false
  }
  return visit(later.urn)
}

test.each(['dev', 'prod', 'pr-example'])(
  'the committed plan of %s equals the output of the program',
  async (stack) => {
    const committed = await readFile(resolve(ROOT, `plans/${stack}.json`), 'utf8')

    expect(plans[stack] && serialize(plans[stack]) === committed, 'npm run plan').toBe(true)
  },
)

test.each(['dev', 'prod', 'pr-example'])(
  'the environment file of %s equals the outputs of the program',
  async (stack) => {
    const { infra } = JSON.parse(await readFile(resolve(ROOT, `environments/${stack}.json`), 'utf8'))
    const given = plans[stack]?.outputs['infra']

    expect(known(given, infra)).toEqual(infra)
  },
)

describe('resources that are deleted with the cluster instead of separately', () => {
  const together = (plan: Plan | undefined) => plan?.resources.filter(({ deletedWith }) => deletedWith) ?? []

  test.each(['dev', 'prod'])('are none in %s, because the cluster is protected', (stack) => {
    // `pulumi destroy --skip-preview` keeps the cluster and would drop its children from the state.
    expect(urnsOf(together(plans[stack]))).toEqual([])
  })

  test('are every pool, window and object of the cluster if protection is off', async () => {
    const { config } = readStackText(await readFile(resolve(ROOT, 'Pulumi.dev.yaml'), 'utf8'))
    const settings = { ...config, 'agentweaver:protect': false, 'agentweaver:plan': 'true' }
    const plan = await runProgram({
      project: 'agentweaver',
      stack: 'dev',
      program: resolve(ROOT, 'infra'),
      config: settings,
    })

    const cluster = only(plan, 'containerservice:ManagedCluster')
    expect(new Set(together(plan).map(({ deletedWith }) => deletedWith))).toEqual(new Set([cluster.urn]))
    expect(together(plan).map(({ type }) => type)).toEqual(
      expect.arrayContaining([
        'azure-native:containerservice:AgentPool',
        'azure-native:containerservice:MaintenanceConfiguration',
        'kubernetes:apps/v1:Deployment',
      ]),
    )
  })
})

/** The outputs, with values that only Azure knows replaced by the values of the file. */
function known(value: unknown, file: unknown): unknown {
  if (isUnknown(value)) return file
  if (Array.isArray(value) || typeof value !== 'object' || value === null) return value
  const inFile = file as Record<string, unknown> | undefined
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, known(inner, inFile?.[key])]))
}

describe.each(['dev', 'prod'])('the platform %s', (stack) => {
  test('creates resources in an order that Azure accepts', () => {
    const plan = plans[stack]
    const cluster = only(plan, 'containerservice:ManagedCluster')
    const own = ofType(plan, 'authorization:RoleAssignment').filter(({ name }) =>
      name.includes('control-plane:'),
    )

    expect(own).toHaveLength(3)
    expect(own.filter((grant) => !comesAfter(plan, cluster, grant))).toEqual([])
    expect(comesAfter(plan, cluster, only(plan, 'network:NatGateway'))).toBe(true)
    const link = ofType(plan, 'privatedns:VirtualNetworkLink').find(({ name }) =>
      name.endsWith(`${stack}-zone-link`),
    )
    expect(link && comesAfter(plan, only(plan, 'dbforpostgresql:Server'), link)).toBeDefined()
    for (const pool of ofType(plan, 'containerservice:AgentPool'))
      expect(comesAfter(plan, pool, cluster)).toBe(true)
  })

  test('changes subnets, pools and federated credentials of one identity one after the other', () => {
    const plan = plans[stack]
    for (const type of ['network:Subnet', 'containerservice:AgentPool']) {
      const chain = ofType(plan, type)
      const pairs = chain.flatMap((a) => chain.filter((b) => b !== a).map((b) => [a, b] as const))
      const loose = pairs.filter(([a, b]) => !comesAfter(plan, a, b) && !comesAfter(plan, b, a))
      expect(chain.length).toBeGreaterThan(1)
      expect(loose).toEqual([])
    }
  })

  test('protects everything that holds state', () => {
    const stateful = [
      'keyvault:Vault',
      'dbforpostgresql:Server',
      'dbforpostgresql:Database',
      'containerservice:ManagedCluster',
      'containerregistry:Registry',
      'dns:Zone',
      'operationalinsights:Workspace',
      'monitor:AzureMonitorWorkspace',
      'resources:ResourceGroup',
      'network:VirtualNetwork',
    ]
    for (const type of stateful) {
      const found = ofType(plans[stack], type)
      expect(found.length, type).toBeGreaterThan(0)
      expect(found.filter((one) => !one.protect)).toEqual([])
    }
  })

  test('gives tags to every resource that supports them, and sets every name explicitly', () => {
    const tagged = plans[stack]?.resources.filter(({ inputs }) => 'location' in inputs) ?? []

    expect(tagged.length).toBeGreaterThan(15)
    const environment = { env: stack, managedBy: 'pulumi' }
    for (const { urn, inputs } of tagged) expect(inputs['tags'], urn).toMatchObject(environment)
  })

  test('gives sandboxes no identity in mode proxy', () => {
    const plan = plans[stack]
    // The plan must not create role definitions: an identity that can write roles can grant itself any right. An owner
    // creates this one.
    expect(ofType(plan, 'authorization:RoleDefinition')).toEqual([])
    expect(
      ofType(plan, 'managedidentity:FederatedIdentityCredential').map(({ inputs }) => inputs['subject']),
    ).toEqual([
      'system:serviceaccount:cert-manager:cert-manager',
      'system:serviceaccount:external-dns:external-dns',
      'system:serviceaccount:agentweaver:agentweaver-api',
      'system:serviceaccount:agentweaver-egress:agentweaver-egress-proxy',
      'system:serviceaccount:agentweaver:agentweaver-database-setup',
    ])
  })

  test('lets the API write users’ credentials without reading them, and the egress proxy read one by its name', () => {
    const plan = plans[stack]
    const vault = new RegExp(`/vaults/agentweaver-${stack}-users$`)
    const rolesOf = (who: string) =>
      ofType(plan, 'authorization:RoleAssignment')
        .filter(({ name, inputs }) => name.includes(`-${who}:`) && vault.test(String(inputs['scope'])))
        .map(({ inputs }) => inputs['roleDefinitionId'])
    const [, , subscription = ''] = String(rolesOf('api')[0]).split('/')

    expect(rolesOf('api')).toEqual([secretWriter(subscription, `agentweaver-${stack}`).definitionId])
    expect(rolesOf('egress-proxy')).toEqual([secretGetter(subscription, `agentweaver-${stack}`).definitionId])
    const ofProxy = ofType(plan, 'authorization:RoleAssignment').filter(({ name }) =>
      name.includes('-egress-proxy:'),
    )
    expect(ofProxy).toHaveLength(1)
  })

  test('lets the Job that makes the API’s role administer the database, and gives its identity no right in Azure', () => {
    const plan = plans[stack]
    const name = `agentweaver-${stack}-database-setup`
    const administrators = ofType(plan, 'dbforpostgresql:AdministratorsMicrosoftEntra')

    expect(administrators.map(({ inputs }) => [inputs['principalName'], inputs['principalType']])).toEqual([
      [expect.any(String), 'group'],
      [name, 'servicePrincipal'],
    ])
    const identity = ofType(plan, 'managedidentity:UserAssignedIdentity').find((one) => one.name === name)
    expect(identity && administrators[1] && comesAfter(plan, administrators[1], identity)).toBe(true)
    const grantees = ofType(plan, 'authorization:RoleAssignment').filter(
      (grant) => identity && comesAfter(plan, grant, identity),
    )
    expect(grantees).toEqual([])
  })

  test('turns off the DNS cache on every node, which would hide names from Cilium', () => {
    const plan = plans[stack]
    const { agentPoolProfiles } = only(plan, 'containerservice:ManagedCluster').inputs
    const pools = ofType(plan, 'containerservice:AgentPool').map(({ inputs }) => inputs)
    const profiles = [...(agentPoolProfiles as (typeof pools)[number][]), ...pools]

    expect(profiles.length).toBeGreaterThan(2)
    for (const { localDNSProfile } of profiles) expect(localDNSProfile).toEqual({ mode: 'Disabled' })
  })

  test('never writes an issuer that it does not know', () => {
    const issuers = ofType(plans[stack], 'managedidentity:FederatedIdentityCredential').map(
      ({ inputs }) => inputs['issuer'],
    )

    expect(issuers.length).toBe(5)
    expect(issuers.every(isUnknown)).toBe(true)
  })

  test('keeps the credentials of the cluster secret', () => {
    const kube = plans[stack]?.resources.find(({ type }) => type === 'pulumi:providers:kubernetes')

    expect(isSecret(kube?.inputs['kubeconfig'])).toBe(true)
  })
})

test('a private platform rejects the Internet, an open one rejects all but the listed ranges', () => {
  const prod = only(plans['prod'], 'containerservice:ManagedCluster').inputs
  const dev = only(plans['dev'], 'containerservice:ManagedCluster').inputs

  expect(prod['publicNetworkAccess']).toBe('Disabled')
  expect(prod['apiServerAccessProfile']).toMatchObject({
    enablePrivateCluster: true,
    disableRunCommand: true,
  })
  expect(dev['apiServerAccessProfile']).toMatchObject({
    authorizedIPRanges: ['203.0.113.0/24'],
    enablePrivateCluster: false,
  })
})

test('the controller is created after its types, rights and default deny, and before the collection of its metrics', () => {
  const plan = plans['dev']
  const kube = plan?.resources.filter(({ type }) => type.startsWith('kubernetes:')) ?? []
  const deployment = kube.find(({ type }) => type.endsWith(':Deployment'))
  const scrape = kube.find(({ type }) => type.endsWith(':PodMonitor'))

  expect(kube).toHaveLength(17)
  expect(
    kube.filter((one) => one !== deployment && deployment && !comesAfter(plan, deployment, one)),
  ).toEqual([scrape])
  expect(scrape && deployment && comesAfter(plan, scrape, deployment)).toBe(true)
  const kept = kube.filter(({ retainOnDelete }) => retainOnDelete)
  expect(kept.map(({ type }) => type.split(':').at(-1))).toEqual(Array(4).fill('CustomResourceDefinition'))
})

test('a slice has its own names, expires, protects nothing and changes nothing in the base platform', () => {
  const plan = plans['pr-example']
  const scopes = ofType(plan, 'authorization:RoleAssignment').map(({ inputs }) => String(inputs['scope']))

  expect(plan?.resources.filter(({ protect }) => protect)).toEqual([])
  expect(urnsOf(ofType(plan, 'containerservice:ManagedCluster'))).toEqual([])
  const identities = ofType(plan, 'managedidentity:UserAssignedIdentity')
  expect(identities).toHaveLength(2)
  for (const { inputs } of identities)
    expect(inputs).toMatchObject({
      resourceGroupName: 'agentweaver-dev-previews',
      tags: { expires: '2027-01-31T00:00:00Z', slice: 'example-50d858' },
    })
  expect(ofType(plan, 'resources:ResourceGroup')).toEqual([])
  expect(scopes.map((scope) => scope.split('/vaults/')[1])).toEqual([
    'agentweaver-dev-users',
    'agentweaver-dev-cp/secrets/aw-pr-example-50d858-deployment-key',
    'agentweaver-dev-cp/secrets/aw-pr-example-50d858-ticket-key',
    'agentweaver-dev-users',
  ])
  const namespaces = plan?.resources.filter(({ type }) => type === 'kubernetes:core/v1:Namespace') ?? []
  for (const { inputs } of namespaces) {
    expect(inputs['metadata']).toMatchObject({
      labels: {
        'agentweaver.io/slice': 'aw-pr-example-50d858',
        'pod-security.kubernetes.io/enforce': 'restricted',
      },
    })
  }
  expect(namespaces).toHaveLength(3)
})

test('lets the identity of the egress proxy call the one model resource of a stack, and no other identity', async () => {
  const account = `/subscriptions/${'1'.repeat(8)}-1111-1111-1111-111111111111/resourceGroups/models/providers/Microsoft.CognitiveServices/accounts/aw`
  const { config } = readStackText(await readFile(resolve(ROOT, 'Pulumi.dev.yaml'), 'utf8'))
  const subscriptionId = String(config['agentweaver:subscriptionId'])
  const resourceId = account.replace(/^\/subscriptions\/[^/]+/, `/subscriptions/${subscriptionId}`)
  const model = { resourceId, host: 'aw.openai.azure.com' }
  const plan = await runProgram({
    ...{ project: 'agentweaver', stack: 'dev', program: resolve(ROOT, 'infra') },
    config: { ...config, 'agentweaver:model': model, 'agentweaver:plan': 'true' },
  })

  const grants = ofType(plan, 'authorization:RoleAssignment').filter(
    ({ inputs }) => inputs['scope'] === resourceId,
  )
  expect(grants.map(({ name }) => name)).toEqual([
    'agentweaver-dev-egress-proxy: Cognitive Services OpenAI User on aw.openai.azure.com',
  ])
  expect(grants[0]?.inputs['roleDefinitionId']).toBe(
    `/subscriptions/${subscriptionId}/providers/Microsoft.Authorization/roleDefinitions/${BUILT_IN_ROLES['Cognitive Services OpenAI User']}`,
  )
  const identities = ofType(plan, 'managedidentity:UserAssignedIdentity').filter(({ name }) =>
    /-(?:egress-proxy|api)$/.test(name),
  )
  expect(identities).toHaveLength(2)
  const isOf = (identity: PlannedResource) => grants[0] !== undefined && comesAfter(plan, grants[0], identity)
  expect(identities.filter(isOf).map(({ name }) => name)).toEqual(['agentweaver-dev-egress-proxy'])
})

test('in mode fqdn, grants AgentHost one secret getter and nothing else, and the command host nothing', async () => {
  const { config } = readStackText(await readFile(resolve(ROOT, 'Pulumi.dev.yaml'), 'utf8'))
  const plan = await runProgram({
    ...{ project: 'agentweaver', stack: 'dev', program: resolve(ROOT, 'infra') },
    config: { ...config, 'agentweaver:egress': { mode: 'fqdn' }, 'agentweaver:plan': 'true' },
  })

  const grants = ofType(plan, 'authorization:RoleAssignment').filter(({ name }) =>
    name.includes('agent-host:'),
  )
  expect(grants.map(({ inputs }) => [inputs['scope'], inputs['principalType']])).toEqual([
    [
      expect.stringMatching(/\/resourceGroups\/agentweaver-dev\/.*\/vaults\/agentweaver-dev-users$/),
      'ServicePrincipal',
    ],
  ])
  const vault = ofType(plan, 'keyvault:Vault').find(({ name }) => name.endsWith('user-token-vault'))
  expect(vault && grants[0] && comesAfter(plan, grants[0], vault)).toBe(true)
  const subscription = String(config['agentweaver:subscriptionId'])
  expect(grants[0]?.inputs['roleDefinitionId']).toBe(
    secretGetter(subscription, 'agentweaver-dev').definitionId,
  )
  const subjects = ofType(plan, 'managedidentity:FederatedIdentityCredential').map(({ inputs }) =>
    String(inputs['subject']),
  )
  expect(subjects.filter((subject) => subject.includes('sandboxes'))).toEqual([
    'system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host',
  ])
})

test('reports every mistake of a configuration before it registers any resource', async () => {
  const config = {
    'agentweaver:kind': 'slice',
    'agentweaver:slug': 'Feature/X',
    'agentweaver:branch': '{x',
    'agentweaver:sulg': 1,
  }
  const run = runProgram({ project: 'agentweaver', stack: 'pr-x', program: resolve(ROOT, 'infra'), config })

  const message = await run.then(String, ({ message: told }: Error) => told)
  expect(message.split('\n').map((line) => line.trim())).toEqual([
    'the configuration of this stack has 5 mistake(s):',
    expect.stringMatching(/^sulg: is not a setting/),
    expect.stringMatching(/^environment: is missing/),
    expect.stringMatching(/^slug: /),
    expect.stringMatching(/^expires: is missing/),
    expect.stringMatching(/^tags: is missing: it needs owner, costCenter/),
  ])
})
