import { readFileSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isUnknown, type Plan, type PlannedResource } from '../../contracts/planned-resource.ts'
import { parseInfraConfig, parseStackFile } from '../../infra/config-schema.ts'
import { LAYERS, layerStack } from '../../infra/model/layers.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { checkStack } from '../../policies/stack/rules.ts'
import { makePlan } from '../../tools/offline-plan/make-plan.ts'
import { reviewPlan } from '../../tools/offline-plan/review.ts'
import { serialize } from '../../tools/offline-plan/stored-plan.ts'
import { writeStackText } from './write-stack-text.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const committed = (stack: string) =>
  JSON.parse(readFileSync(join(ROOT, `plans/${stack}.json`), 'utf8')) as Plan
const REFERENCE = 'pulumi:pulumi:StackReference'
const STACKS = LAYERS.map((layer) => layerStack('prod', layer))
const NETWORK_ID =
  '/subscriptions/b17c1d0c-0e0b-4b0c-8a43-6a2f0d9c7e52/resourceGroups/hub/providers/Microsoft.Network/virtualNetworks/hub'
const [NETWORK = '', CLUSTER = '', ADD_ONS = ''] = STACKS

/** A resource without the name of its stack, in its own URN and in those that it refers to. */
const anywhere = (text: string) => text.replaceAll(/urn:pulumi:[^:]+::/g, 'urn:pulumi:any::')
const key = ({ urn }: PlannedResource) => anywhere(urn)
/** Replaces values that only Azure knows, because a layer reads them from another stack. */
const known = (value: unknown): unknown => {
  if (isUnknown(value)) return 'unknown'
  if (Array.isArray(value)) return value.map(known)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, known(inner)]))
}

describe('the layers of prod', () => {
  const whole = new Map(committed('prod').resources.map((one) => [key(one), one]))
  const layers = STACKS.flatMap((stack) => committed(stack).resources)
  const split = layers.filter(({ type }) => type !== REFERENCE)

  test('together create exactly the resources of one stack, plus one Azure provider each', () => {
    const twice = split.filter((one, index) => split.findIndex((other) => key(other) === key(one)) < index)

    expect(new Set(split.map(key))).toEqual(new Set(whole.keys()))
    expect([...new Set(twice.map(({ type }) => type))]).toEqual(['pulumi:providers:azure-native'])
  })

  test('give each resource the same inputs and options, including the names of grants', () => {
    const budget = 'azure-native:consumption:Budget'
    for (const one of split.filter(({ type }) => type !== budget)) {
      const { inputs, protect, ignoreChanges, retainOnDelete } = one
      const same = whole.get(key(one))

      expect(known(inputs), one.urn).toEqual(known(same?.inputs))
      expect({ protect, ignoreChanges, retainOnDelete }, one.urn).toEqual({
        protect: same?.protect,
        ignoreChanges: same?.ignoreChanges,
        retainOnDelete: same?.retainOnDelete,
      })
    }
  })

  test('read only the previous stack', () => {
    const read = STACKS.map((stack) =>
      committed(stack)
        .resources.filter(({ type }) => type === REFERENCE)
        .map(({ inputs }) => inputs['name']),
    )

    expect(read).toEqual([
      [],
      [`organization/agentweaver/${NETWORK}`],
      [`organization/agentweaver/${CLUSTER}`],
    ])
  })

  test('connect to the API server only in the last layer', () => {
    const kubernetes = (stack: string) =>
      committed(stack).resources.filter(({ type }) => /^kubernetes:|providers:kubernetes/.test(type))

    expect(kubernetes(NETWORK)).toEqual([])
    expect(kubernetes(CLUSTER)).toEqual([])
    expect(kubernetes(ADD_ONS).length).toBeGreaterThan(10)
  })

  test('pass on ids and names, and no credential', () => {
    const boundary = (stack: string) => committed(stack).outputs['boundary']

    expect(Object.keys(boundary(NETWORK) ?? {}).toSorted()).toEqual([
      'resourceGroupName',
      'subnets',
      'virtualNetworkId',
    ])
    expect(Object.keys(boundary(CLUSTER) ?? {}).toSorted()).toEqual(['clusterName', 'resourceGroupName'])
    expect(boundary(ADD_ONS)).toBeUndefined()
    for (const stack of STACKS) expect(JSON.stringify(committed(stack).outputs)).not.toContain('$secret')
  })

  test('each follow all rules, and a subnet that belongs to no stack is still reported', () => {
    const plan = committed(CLUSTER)
    const without = plan.resources.filter(({ type }) => type !== REFERENCE)

    expect(STACKS.map((stack) => checkStack(committed(stack)))).toEqual([[], [], []])
    expect(checkStack({ ...plan, resources: without }).map(({ rule }) => rule)).toContain('pg-private')
  })

  test('are checked with the rules of production, like prod', () => {
    const plan = committed(CLUSTER)
    const weaker = plan.resources.map((one) =>
      one.type === 'azure-native:dbforpostgresql:Server'
        ? { ...one, inputs: { ...one.inputs, highAvailability: { mode: 'Disabled' } } }
        : one,
    )

    expect(checkStack({ ...plan, resources: weaker }).map(({ rule }) => rule)).toEqual(['pg-prod'])
  })

  test('are counted as Pulumi counts: resources of another stack are read, not created', () => {
    const { counts } = reviewPlan(committed(CLUSTER))

    expect(counts.pulumi).toBe(committed(CLUSTER).resources.length)
    expect(
      reviewPlan(committed(CLUSTER))
        .components.map(({ title }) => title)
        .join(),
    ).not.toContain('Reference')
  })
})

describe('the stack file of a layer', () => {
  test.each(STACKS)('%s is valid', (stack) => {
    const parsed = parseStackFile(readStackText(readFileSync(join(ROOT, `Pulumi.${stack}.yaml`), 'utf8')))

    expect(parsed).toHaveProperty('config.environment', 'prod')
  })

  test.each([
    [{ location: 'eastus2' }, 'location', /setting of the whole platform: .* set it in Pulumi\.prod\.yaml/],
    [{ locaton: 'eastus2' }, 'locaton', /is not a setting/],
    [{ environment: undefined }, 'environment', /is missing/],
    // The identity of previews may write the state of every stack that is called pr-….
    [{ environment: 'pr' }, 'environment', /must not be "pr"/],
  ])('with %o is rejected', (change, path, message) => {
    const parsed = parseInfraConfig({ kind: 'platform', layer: 'cluster', environment: 'prod', ...change })

    expect(parsed).toMatchObject({ problems: [{ path, message: expect.stringMatching(message) }] })
  })

  test('is rejected with the name of an unknown layer', () => {
    const { config } = readStackText(readFileSync(join(ROOT, 'Pulumi.dev.yaml'), 'utf8'))
    const own = Object.fromEntries(
      Object.entries(config).map(([name, value]) => [name.replace('agentweaver:', ''), value]),
    )

    expect(parseInfraConfig({ ...own, layer: 'addons' })).toMatchObject({
      problems: [{ path: 'layer', message: expect.stringContaining('all, network, cluster, add-ons') }],
    })
  })
})

/** A copy of the project whose `prod` has other settings for the network or the API server. */
describe('access to the network', () => {
  let project = ''
  beforeAll(async () => {
    project = await mkdtemp(join(tmpdir(), 'layers-'))
    for (const name of ['infra', 'contracts', 'environments', 'package.json', 'Pulumi.yaml'])
      await cp(join(ROOT, name), join(project, name), { recursive: true })
    for (const stack of STACKS)
      await cp(join(ROOT, `Pulumi.${stack}.yaml`), join(project, `Pulumi.${stack}.yaml`))
    await symlink(join(ROOT, 'node_modules'), join(project, 'node_modules'))
  })
  afterAll(() => rm(project, { recursive: true }))

  async function planned(stack: string, settings: Readonly<Record<string, unknown>>): Promise<Plan> {
    const { config } = readStackText(await readFile(join(ROOT, 'Pulumi.prod.yaml'), 'utf8'))
    await writeFile(join(project, 'Pulumi.prod.yaml'), writeStackText({ config: { ...config, ...settings } }))
    return makePlan(project, stack)
  }
  const ranges = {
    vnetCidr: '10.60.0.0/16',
    nodeCidr: '10.60.0.0/22',
    apiServerCidr: '10.60.4.0/28',
    databaseCidr: '10.60.5.0/28',
    endpointCidr: '10.60.6.0/26',
  }
  const HUB = NETWORK_ID
  const ofType = (plan: Plan, type: string) =>
    plan.resources.filter((one) => one.type === `azure-native:${type}`)

  const refusedByNodes = (plan: Plan) => {
    const group = ofType(plan, 'network:NetworkSecurityGroup').find(({ name }) => name.endsWith('-nodes-nsg'))
    const rules = group?.inputs['securityRules'] as readonly Record<string, unknown>[]
    return rules.filter(({ access }) => access === 'Deny').map((rule) => rule['sourceAddressPrefix'])
  }

  test('a subnet for runners uses the NAT gateway and accepts no connection from the Internet', () => {
    const plan = committed(NETWORK)
    const subnet = ofType(plan, 'network:Subnet').find(({ name }) => name.endsWith('-runners'))
    const group = ofType(plan, 'network:NetworkSecurityGroup').find(({ name }) => name.includes('runners'))

    expect(subnet?.inputs).toMatchObject({
      addressPrefix: '10.60.7.0/27',
      natGateway: { id: { $unknown: expect.stringContaining('NatGateway') } },
    })
    expect(JSON.stringify(group?.inputs['securityRules'])).not.toContain('"Allow"')
    // Azure's default network rule allows every subnet and every peered network.
    expect(refusedByNodes(plan)).toEqual(['10.60.7.0/27', 'Internet'])
    expect(refusedByNodes(committed('dev'))).toEqual(['Internet'])
    expect(checkStack(plan)).toEqual([])
  })

  test('peerings are created one after the other, and GitHub-hosted runners get their delegation', async () => {
    const plan = await planned(NETWORK, {
      'agentweaver:network': {
        ...ranges,
        runners: { cidr: '10.60.7.0/27', host: 'github' },
        peerings: [
          { name: 'hub', virtualNetworkId: HUB, ranges: ['10.70.0.0/16'] },
          { name: 'office', virtualNetworkId: `${HUB}-2`, ranges: ['10.80.0.0/16'] },
        ],
      },
    })
    const [first, second] = ofType(plan, 'network:VirtualNetworkPeering')
    const runners = ofType(plan, 'network:Subnet').find(({ name }) => name.endsWith('-runners'))

    expect(runners?.inputs['delegations']).toEqual([
      { name: 'github', serviceName: 'GitHub.Network/networkSettings' },
    ])
    expect(first?.inputs).toMatchObject({ remoteVirtualNetwork: { id: HUB }, useRemoteGateways: false })
    expect(first?.dependencies).toContain(runners?.urn)
    expect(second?.dependencies).toContain(first?.urn)
    expect(refusedByNodes(plan)).toEqual(['10.60.7.0/27', '10.70.0.0/16', '10.80.0.0/16', 'Internet'])
    expect(checkStack(plan)).toEqual([])
  })

  test('an existing network is referenced by id, and no resource is created in it', async () => {
    const settings = {
      'agentweaver:network': {
        ...ranges,
        existing: {
          virtualNetworkId: HUB,
          subnets: { nodes: 'aks', apiServer: 'aks-api', database: 'pg', endpoints: 'links' },
        },
      },
    }
    const network = await planned(NETWORK, settings)
    const cluster = await makePlan(project, CLUSTER)
    const whole = await makePlan(project, 'prod')

    expect(network.resources.filter(({ type }) => type.startsWith('azure-native:network:'))).toEqual([])
    expect(network.outputs['boundary']).toMatchObject({
      virtualNetworkId: HUB,
      subnets: { nodes: `${HUB}/subnets/aks`, database: `${HUB}/subnets/pg` },
    })
    for (const vault of ofType(cluster, 'keyvault:Vault'))
      expect(vault.inputs['properties']).toMatchObject({
        networkAcls: { virtualNetworkRules: [{ id: `${HUB}/subnets/aks` }] },
      })
    expect(ofType(whole, 'dbforpostgresql:Server')[0]?.inputs['network']).toMatchObject({
      delegatedSubnetResourceId: `${HUB}/subnets/pg`,
    })
    expect([network, cluster, whole].map((plan) => checkStack(plan))).toEqual([[], [], []])
  })

  test('a private API server has a public name only if the configuration asks for one', async () => {
    const plan = await planned(CLUSTER, { 'agentweaver:apiServer': { access: 'private', publicName: true } })
    const publicName = (one: Plan) =>
      ofType(one, 'containerservice:ManagedCluster').map(
        ({ inputs }) =>
          (inputs['apiServerAccessProfile'] as Record<string, unknown>)['enablePrivateClusterPublicFQDN'],
      )

    expect([publicName(plan), publicName(committed(CLUSTER))]).toEqual([[true], [false]])
    expect(checkStack(plan)).toEqual([])
  })

  test('a layer in a stack with another name is rejected, because it would create resources of another stack', async () => {
    await cp(join(ROOT, `Pulumi.${CLUSTER}.yaml`), join(project, 'Pulumi.mine.yaml'))

    await expect(makePlan(project, 'mine')).rejects.toThrow(
      /the layer cluster of prod is the stack prod-cluster, and this is mine/,
    )
  })
})

test.each([
  [{ existing: {}, runners: {} }, 'network.existing.virtualNetworkId'],
  [{ runners: { cidr: '10.40.6.0/27' } }, 'network.runners.cidr'],
  [{ runners: { cidr: '10.50.7.0/27' } }, 'network.runners.cidr'],
  [
    { peerings: [{ name: 'hub', virtualNetworkId: '/subscriptions/x' }] },
    'network.peerings.0.virtualNetworkId',
  ],
  [
    { peerings: [{ name: 'hub', virtualNetworkId: NETWORK_ID, ranges: ['10.40.9.0/24'] }] },
    'network.peerings.0.ranges.0',
  ],
])('rejects the network %o at %s', (network, path) => {
  const { config } = readStackText(readFileSync(join(ROOT, 'Pulumi.dev.yaml'), 'utf8'))
  const parsed = parseStackFile({ config: { ...config, 'agentweaver:network': network }, problems: [] })

  expect('problems' in parsed && parsed.problems.map((one) => one.path)).toContain(path)
})

test.each(STACKS)('the committed plan of %s equals the output of the program', async (stack) => {
  expect(
    serialize(await makePlan(ROOT, stack)) === readFileSync(join(ROOT, `plans/${stack}.json`), 'utf8'),
  ).toBe(true)
})
