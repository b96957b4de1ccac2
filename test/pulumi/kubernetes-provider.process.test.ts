import { expect, test } from 'vitest'
import { userKubeconfig } from '../fakes/pulumi/azure/invokes.ts'
import { hostOf, kubernetesStandIn } from '../fakes/pulumi/kubernetes-provider.ts'
import { isSecret, type Properties, secret, UNKNOWN, valueAt } from '../fakes/pulumi/values.ts'
import { aProvider, type ProviderClient } from './helpers/provider-client.ts'

const HOST = 'aks-1.hcp.westeurope.azmk8s.io'
const KUBECONFIG = userKubeconfig(HOST, 'aks', 'tenant')
const NAMESPACE = 'kubernetes:core/v1:Namespace'
const CONFIG_MAP = 'kubernetes:core/v1:ConfigMap'
const SECRET = 'kubernetes:core/v1:Secret'
const DEPLOYMENT = 'kubernetes:apps/v1:Deployment'
const DEFINITION = 'kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition'
const POOL = 'kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxWarmPool'

const namespace = (name: string): Properties => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
const configMap = (data: Properties): Properties => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'settings', namespace: 'agents' },
  data,
})

async function aCluster(args: Properties = {}) {
  const running = await aProvider(kubernetesStandIn, { kubeconfig: KUBECONFIG, ...args })
  running.cloud.put({ id: '/aks', type: 'cluster', inputs: {}, outputs: { fqdn: HOST } })
  return running
}
async function make(provider: ProviderClient, type: string, news: Properties) {
  const { inputs } = await provider.check([type, 'one'], news)
  return { inputs, ...(await provider.create([type, 'one'], inputs)) }
}

test('reads the host of the current context, and says of a text without one that it leads nowhere', () => {
  expect(hostOf(KUBECONFIG)).toBe(HOST)
  expect(hostOf('apiVersion: v1\nkind: Config\n')).toBeUndefined()
  expect(hostOf('')).toBeUndefined()
})

test('makes an object as an API server does, by namespace and name', async () => {
  await using running = await aCluster()
  await make(running.provider, NAMESPACE, namespace('agents'))

  const made = await make(running.provider, CONFIG_MAP, configMap({ a: 'b' }))

  expect(made.id).toBe('agents/settings')
  expect(made.outputs).toMatchObject({
    ...configMap({ a: 'b' }),
    metadata: { name: 'settings', uid: expect.stringMatching(/^[0-9a-f-]{36}$/), generation: 1 },
  })
})

test('names and places what the program did not', async () => {
  await using running = await aCluster()
  const bare = { apiVersion: 'v1', kind: 'ConfigMap', data: {} }

  const first = await running.provider.check([CONFIG_MAP, 'settings'], bare)
  const again = await running.provider.check([CONFIG_MAP, 'settings'], bare, first.inputs)
  const scoped = await running.provider.check([NAMESPACE, 'one'], namespace('agents'))

  expect(first.inputs['metadata']).toEqual({
    name: expect.stringMatching(/^settings-[0-9a-f]{8}$/),
    namespace: 'default',
    annotations: { 'pulumi.com/autonamed': 'true' },
  })
  expect(again.inputs).toMatchObject({ metadata: { name: valueAt(first.inputs, 'metadata.name') } })
  expect(scoped.inputs).toEqual(namespace('agents'))
})

test.each<[string, Properties, Properties, string[]]>([
  [CONFIG_MAP, configMap({ a: 'b' }), configMap({ a: 'c' }), ['data.a']],
  [NAMESPACE, namespace('a'), namespace('b'), ['metadata.name']],
  [DEPLOYMENT, { spec: { replicas: 1 } }, { spec: { replicas: 2 } }, []],
  [DEPLOYMENT, { spec: { selector: { a: 'b' } } }, { spec: { selector: { a: 'c' } } }, ['spec.selector.a']],
  [
    NAMESPACE,
    { metadata: { name: 'a', labels: { 'x.io/y': '1' } } },
    { metadata: { name: 'a', labels: {} } },
    [],
  ],
])('tells an edit of %s apart', async (...[type, old, news, replaces]) => {
  await using running = await aCluster()

  const answer = await running.provider.diff([type, 'one'], { id: 'x', old, news })

  expect(answer).toMatchObject({ changes: true, replaces })
})

test('knows what Azure would have collected on a cluster alone that has metrics', async () => {
  await using running = await aCluster()
  const type = 'kubernetes:azmonitoring.coreos.com/v1:PodMonitor'
  const monitor = { kind: 'PodMonitor', metadata: { name: 'one', namespace: 'default' } }

  await expect(make(running.provider, type, monitor)).rejects.toThrow(/no matches for kind "PodMonitor"/)
  const inputs = { azureMonitorProfile: { metrics: { enabled: true } } }
  running.cloud.put({ id: '/aks', type: 'cluster', inputs, outputs: { fqdn: HOST } })
  expect((await make(running.provider, type, monitor)).id).toBe('default/one')
})

test('takes no object whose namespace or whose kind is not there yet', async () => {
  await using running = await aCluster()
  const pool = { kind: 'SandboxWarmPool', metadata: { name: 'pool', namespace: 'default' } }

  await expect(make(running.provider, CONFIG_MAP, configMap({}))).rejects.toThrow(
    /namespaces "agents" not found/,
  )
  await expect(make(running.provider, POOL, pool)).rejects.toThrow(/no matches for kind "SandboxWarmPool"/)
  await make(running.provider, DEFINITION, {
    kind: 'CustomResourceDefinition',
    metadata: { name: 'sandboxwarmpools.extensions.agents.x-k8s.io' },
    spec: { group: 'extensions.agents.x-k8s.io', names: { kind: 'SandboxWarmPool' } },
  })

  expect((await make(running.provider, POOL, pool)).id).toBe('default/pool')
})

test('has the namespace that an extension of the very cluster is released into', async () => {
  await using running = await aCluster()
  const inputs = { scope: { cluster: { releaseNamespace: 'agents' } } }

  running.cloud.put({ id: '/aks-2/extensions/one', type: 'extension', inputs, outputs: {} })
  await expect(make(running.provider, CONFIG_MAP, configMap({}))).rejects.toThrow(
    /namespaces "agents" not found/,
  )
  running.cloud.put({ id: '/aks/extensions/one', type: 'extension', inputs, outputs: {} })
  expect((await make(running.provider, CONFIG_MAP, configMap({}))).id).toBe('agents/settings')
})

test('deletes the contents of a namespace with it, and creates nothing twice', async () => {
  await using running = await aCluster()
  const made = await make(running.provider, NAMESPACE, namespace('agents'))
  await make(running.provider, CONFIG_MAP, configMap({}))

  await expect(make(running.provider, NAMESPACE, namespace('agents'))).rejects.toThrow(/already exists/)
  await running.provider.delete([NAMESPACE, 'one'], made)

  expect(running.cloud.list().map(({ type }) => type)).toEqual(['cluster'])
})

test('keeps what came as a secret a secret, and every Secret one', async () => {
  await using running = await aCluster()
  await make(running.provider, NAMESPACE, namespace('agents'))

  const map = await make(running.provider, CONFIG_MAP, { ...configMap({}), data: secret({ key: 'canary' }) })
  const own = await make(running.provider, SECRET, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 's', namespace: 'agents' },
    stringData: { key: 'canary' },
  })

  expect(isSecret(map.inputs['data'] ?? null)).toBe(true)
  expect(isSecret(map.outputs['data'] ?? null)).toBe(true)
  expect(isSecret(own.outputs['stringData'] ?? null)).toBe(true)
})

test('shows drift to a refresh, and only in what the program had set', async () => {
  await using running = await aCluster()
  await make(running.provider, NAMESPACE, namespace('agents'))
  const made = await make(running.provider, CONFIG_MAP, configMap({ a: 'b' }))
  const [object] = running.cloud.list().filter(({ type }) => type === CONFIG_MAP)
  running.cloud.alter(object?.id ?? '', 'data.a', 'changed')
  running.cloud.alter(object?.id ?? '', 'metadata.labels', { by: 'somebody' })

  const read = await running.provider.read([CONFIG_MAP, 'one'], made)

  expect(read.inputs).toEqual(configMap({ a: 'changed' }))
})

test.each([
  ['false', 'rejects'],
  ['true', 'forgets'],
])(
  'deletes from a cluster that is gone only with deleteUnreachable: %s',
  async (deleteUnreachable, outcome) => {
    await using running = await aCluster({ deleteUnreachable })
    const made = await make(running.provider, NAMESPACE, namespace('agents'))
    running.cloud.remove('/aks')

    const deleting = running.provider.delete([NAMESPACE, 'one'], made).then(
      () => 'forgets',
      (error: Error) => (/unreachable/.test(error.message) ? 'rejects' : error.message),
    )

    expect(await deleting).toBe(outcome)
  },
)

test('replaces everything only when the kubeconfig leads to another cluster', async () => {
  const other = userKubeconfig('aks-2.hcp.westeurope.azmk8s.io', 'aks', 'tenant')
  const renamed = userKubeconfig(HOST, 'renamed', 'tenant')
  await using running = await aCluster()
  const standIn = kubernetesStandIn(running.cloud)
  const replaces = (olds: Properties, news: Properties) => standIn.diffConfig(olds, news).replaces

  expect(replaces({ kubeconfig: KUBECONFIG }, { kubeconfig: renamed })).toEqual([])
  expect(replaces({ kubeconfig: KUBECONFIG }, { kubeconfig: other })).toEqual(['kubeconfig'])
  expect(replaces({ kubeconfig: KUBECONFIG }, { kubeconfig: UNKNOWN })).toEqual([])
  expect(
    replaces(
      { kubeconfig: KUBECONFIG, clusterIdentifier: 'x' },
      { kubeconfig: other, clusterIdentifier: 'x' },
    ),
  ).toEqual([])
})
