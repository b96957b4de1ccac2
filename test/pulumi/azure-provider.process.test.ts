import messages from '@pulumi/pulumi/proto/provider_pb.js'
import { expect, test } from 'vitest'
import {
  ADDRESSED_TYPES,
  addressOf,
  parentAddress,
  pathParametersOf,
} from '../fakes/pulumi/azure/addresses.ts'
import { computedValues } from '../fakes/pulumi/azure/computed.ts'
import { sdkShape } from '../fakes/pulumi/azure/sdk-shape.ts'
import { type Properties, secret, UNKNOWN } from '../fakes/pulumi/values.ts'
import { empty, STATUS, versionOf } from '../fakes/pulumi/wire.ts'
import {
  ARGS,
  ASSIGNMENT,
  aCluster,
  aGroup,
  azure,
  CLUSTER,
  clusterInputs,
  GROUP,
  make,
  POOL,
  SUBSCRIPTION,
  TENANT,
  VAULT,
} from './helpers/azure.ts'

test('returns the version of the SDK to the engine, and reports that it receives secrets in plain text', async () => {
  await using running = await azure()

  const info = await running.provider.call<{ getVersion(): string }>('getPluginInfo', empty())
  const configured = await running.provider.configure(ARGS)

  expect(info.getVersion()).toBe(versionOf('azure-native'))
  expect(configured.getAcceptsecrets()).toBe(false)
  expect(configured.getSupportspreview()).toBe(true)
})

test.each(ADDRESSED_TYPES)('has an address for %s whose parameters the SDK takes', (type) => {
  const shape = sdkShape(type)

  const unknown = pathParametersOf(type).filter((name) => !shape?.inputs.has(name) && name !== 'name')

  expect(shape?.outputs.size).toBeGreaterThan(1)
  expect(unknown).toEqual([])
})

test.each(ADDRESSED_TYPES)('computes for %s only what the SDK can read', (type) => {
  const inputs = Object.fromEntries([...pathParametersOf(type)].map((name) => [name, 'x']))
  const id = addressOf(type, inputs, SUBSCRIPTION)

  const made = computedValues(type, { id, inputs, subscriptionId: SUBSCRIPTION, tenantId: TENANT })

  const common = new Set(['name', 'etag', 'eTag', 'provisioningState', 'resourceGuid'])
  const roots = [...made.keys()].filter((path) => !common.has(path)).map((path) => path.split('.')[0] ?? '')
  expect(roots.filter((root) => !sdkShape(type)?.outputs.has(root))).toEqual([])
})

test.each([
  ['/subscriptions/s/resourceGroups/g', undefined],
  ['/subscriptions/s/resourceGroups/g/providers/A.B/c/d', '/subscriptions/s/resourceGroups/g'],
  [
    '/subscriptions/s/resourceGroups/g/providers/A.B/c/d/e/f',
    '/subscriptions/s/resourceGroups/g/providers/A.B/c/d',
  ],
  [
    '/subscriptions/s/resourceGroups/g/providers/A.B/c/d/providers/E.F/g/h',
    '/subscriptions/s/resourceGroups/g/providers/A.B/c/d',
  ],
  ['/subscriptions/s/providers/E.F/g/h', undefined],
])('knows what %s hangs on', (id, parent) => {
  expect(parentAddress(id)).toBe(parent)
})

test('refuses a type that it has no address for', async () => {
  await using running = await azure()

  const checking = running.provider.check(['azure-native:web:WebApp', 'one'], {})

  await expect(checking).rejects.toMatchObject({ code: STATUS.invalidArgument })
})

test('fills in the location and a name where the program gave none, and keeps both', async () => {
  await using running = await azure()

  const first = await running.provider.check([GROUP, 'group'], {})
  const second = await running.provider.check(
    [GROUP, 'group'],
    {},
    { ...first.inputs, location: 'northeurope' },
  )

  expect(first.inputs).toMatchObject({
    location: 'westeurope',
    resourceGroupName: expect.stringMatching(/^group[0-9a-f]{8}$/),
  })
  expect(second.inputs).toEqual({ ...first.inputs, location: 'northeurope' })
})

test('reports a missing part of the address', async () => {
  await using running = await azure()

  const { failures } = await running.provider.check([POOL, 'pool'], { agentPoolName: 'app' })

  expect(failures).toEqual([
    "missing required property 'resourceGroupName'",
    "missing required property 'resourceName'",
  ])
})

test('makes a cluster with an id of ARM, an issuer, a host and the identity of its nodes', async () => {
  await using running = await azure()

  const cluster = await aCluster(running.provider)

  expect(cluster.id).toBe(
    `/subscriptions/${SUBSCRIPTION}/resourceGroups/rg-test/providers/Microsoft.ContainerService/managedClusters/aks`,
  )
  expect(cluster.outputs).toMatchObject({
    name: 'aks',
    location: 'westeurope',
    fqdn: expect.stringMatching(/^aks-[0-9a-f]{8}\.hcp\.westeurope\.azmk8s\.io$/),
    oidcIssuerProfile: {
      enabled: true,
      issuerURL: expect.stringMatching(new RegExp(`^https://.*/${TENANT}/.*/$`)),
    },
    identityProfile: { kubeletidentity: { objectId: expect.any(String) } },
  })
  expect(cluster.outputs).not.toHaveProperty('resourceGroupName')
})

test('leaves open in a preview what only Azure knows, at every depth, and nothing else', async () => {
  await using running = await azure()
  const inputs = clusterInputs(UNKNOWN, UNKNOWN)

  const { id, outputs } = await running.provider.create(
    [CLUSTER, 'one'],
    { ...inputs, location: 'westeurope' },
    true,
  )

  expect(id).toBe('')
  expect(outputs).toMatchObject({
    fqdn: UNKNOWN,
    name: UNKNOWN,
    location: 'westeurope',
    identityProfile: UNKNOWN,
  })
  expect(outputs['oidcIssuerProfile']).toEqual({ enabled: true, issuerURL: UNKNOWN })
  expect(running.cloud.list()).toEqual([])
})

test.each<[string, Properties, string[]]>([
  [CLUSTER, { tags: { a: 'b' } }, []],
  [CLUSTER, { dnsPrefix: 'other' }, ['dnsPrefix']],
  [CLUSTER, { networkProfile: { podCidr: '10.8.0.0/16' } }, ['networkProfile.podCidr']],
  [CLUSTER, { networkProfile: { podCidr: '10.244.0.0/16', loadBalancerSku: 'standard' } }, []],
  [CLUSTER, { resourceName: 'other' }, ['resourceName']],
  [CLUSTER, { location: 'northeurope' }, ['location']],
  [CLUSTER, {}, []],
  [POOL, { vmSize: 'Standard_D8ds_v5' }, ['vmSize']],
  [POOL, { count: 3 }, []],
  [POOL, { agentPoolName: 'kata2' }, ['agentPoolName']],
  [ASSIGNMENT, { principalId: UNKNOWN }, ['principalId']],
  [ASSIGNMENT, { description: 'why' }, []],
  [VAULT, { properties: { enableRbacAuthorization: true } }, []],
])('tells an edit of %s to %o apart', async (type, edit, replaces) => {
  await using running = await azure()
  const old = {
    ...clusterInputs('s', 'i'),
    agentPoolName: 'kata1',
    principalId: 'p',
    location: 'westeurope',
    vmSize: 'Standard_D4ds_v5',
  }

  const answer = await running.provider.diff([type, 'one'], { id: 'x', old, news: { ...old, ...edit } })

  expect(answer).toMatchObject({
    changes: Object.keys(edit).length > 0,
    replaces,
    deleteBeforeReplace: replaces.length > 0,
  })
  const kind = messages.PropertyDiff.Kind
  const marked = Object.entries(answer.details).filter(
    ([, found]) =>
      found === kind.ADD_REPLACE || found === kind.UPDATE_REPLACE || found === kind.DELETE_REPLACE,
  )
  expect(marked.map(([path]) => path)).toEqual(replaces)
})

test('makes the new one first where the name is its own invention', async () => {
  await using running = await azure()
  const { inputs: old } = await running.provider.check([GROUP, 'group'], {})

  const answer = await running.provider.diff([GROUP, 'group'], {
    id: 'x',
    old,
    news: { ...old, location: 'northeurope' },
  })

  expect(answer).toMatchObject({ replaces: ['location'], deleteBeforeReplace: false })
})

test('shows drift in a refresh, and in inputs only for properties that the program sets', async () => {
  await using running = await azure()
  const group = await make(running.provider, GROUP, { resourceGroupName: 'rg-test', tags: { env: 'dev' } })
  running.cloud.alter(group.id, 'tags.env', 'prod')
  running.cloud.alter(group.id, 'managedBy', 'somebody')

  const read = await running.provider.read([GROUP, 'one'], group)
  const gone = await running.provider.read([GROUP, 'one'], { ...group, id: `${group.id}x` })

  expect(read.outputs).toMatchObject({ tags: { env: 'prod' }, managedBy: 'somebody' })
  expect(read.inputs).toEqual({ ...group.inputs, tags: { env: 'prod' } })
  expect(gone.id).toBe('')
})

test('imports what exists with the inputs that it was made with', async () => {
  await using running = await azure()
  const group = await aGroup(running.provider)

  const read = await running.provider.read([GROUP, 'one'], { id: group.id })

  expect(read).toMatchObject({ id: group.id, inputs: group.inputs })
})

test('deletes the children of an object with it, and the cluster with it', async () => {
  await using running = await azure()
  const cluster = await aCluster(running.provider)
  await make(running.provider, POOL, {
    resourceGroupName: 'rg-test',
    resourceName: 'aks',
    agentPoolName: 'app',
  })

  await running.provider.delete([CLUSTER, 'one'], cluster)

  expect(running.cloud.list().filter(({ id }) => id.includes('managedClusters'))).toEqual([])
})

test('marks secrets on the wire if asked, and stores them in plain text', async () => {
  await using running = await azure()

  const { inputs } = await running.provider.check([GROUP, 'one'], {
    resourceGroupName: 'rg-test',
    tags: secret({ a: 'b' }),
  })

  expect(inputs['tags']).toEqual({ a: 'b' })
})

test('hands out credentials of a cluster without a token, and no administrator credentials at all', async () => {
  await using running = await azure()
  const cluster = await aCluster(running.provider)
  const args = { resourceGroupName: 'rg-test', resourceName: 'aks' }

  const { kubeconfigs } = await running.provider.invoke(
    'azure-native:containerservice:listManagedClusterUserCredentials',
    args,
  )
  const admin = running.provider.invoke(
    'azure-native:containerservice:listManagedClusterAdminCredentials',
    args,
  )

  const [{ value }] = kubeconfigs as [{ value: string }]
  const kubeconfig = Buffer.from(value, 'base64').toString()
  expect(kubeconfig).toContain(`https://${cluster.outputs['fqdn']}:443`)
  expect(kubeconfig).not.toMatch(/"token"|client-key/)
  await expect(admin).rejects.toThrow(/disable local accounts/)
})
