import { describe, expect, it } from 'vitest'
import { checkReachability } from '../../charts-src/access-matrix/check-reachability.ts'
import { checkTree } from '../../charts-src/checks/check-tree.ts'
import { placeholderValues } from '../../charts-src/environment/placeholder-values.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { forbiddenEndpoints } from '../../charts-src/network/private-endpoints.ts'
import { parseQuantity } from '../../contracts/quantity.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { parseCredentialsFile } from '../../runtime/api/credentials/credentials-file.ts'
import {
  aTree,
  type EnvironmentName,
  loadedWith,
  objectIn,
  PROXY_SIZE,
  proxySizeFor,
  setEgress,
} from './fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: objects as they are rendered
type Fields = any

const inModeProxy = (name: EnvironmentName, size?: object, egress: object = {}): Environment =>
  loadedWith(name, (value) => {
    value['egress'] = {
      mode: 'proxy',
      proxyAddress: value['infra'].network.serviceCidrs[0].replace('.0.0/16', '.0.20'),
      ...egress,
    }
    value['sizes'].egressProxy = size ?? proxySizeFor(value)
  })

const ofProxy = (environment: Environment, kind: string, name = 'agentweaver-egress-proxy'): Fields =>
  objectIn(aTree(environment), kind, name)
const apiEgress = (environment: Environment): string =>
  JSON.stringify(ofProxy(environment, 'CiliumNetworkPolicy', 'api-egress')['spec'])
const podOf = (environment: Environment): Fields => ofProxy(environment, 'Deployment')['spec'].template.spec

describe.each(['dev', 'local', 'prod', 'pr-example'] as const)('%s in mode proxy', (name) => {
  it('passes every check of a tree', () => {
    expect(checkTree(aTree(inModeProxy(name)))).toEqual([])
  })
})

const CREDENTIALS = [
  { id: 'git', variable: 'GIT_TOKEN' },
  { id: 'app', githubApp: { appId: 1, installationId: 2, repository: 'owner/name' } },
  { id: 'corp', kind: 'client-certificate' },
]
const ROOT = '-----BEGIN CERTIFICATE-----\nTm9uZQ==\n-----END CERTIFICATE-----\n'
const CREDENTIALS_SIZE = { ...PROXY_SIZE, credentials: PROXY_SIZE.container }
const withCredentials = (name: EnvironmentName = 'prod') =>
  inModeProxy(name, CREDENTIALS_SIZE, { credentials: CREDENTIALS, roots: [ROOT] })

describe('a pod of the egress proxy with credentials', () => {
  it.each(['dev', 'local', 'prod', 'pr-example'] as const)('passes every check of the tree of %s', (name) => {
    const [environment, tree] = [withCredentials(name), aTree(withCredentials(name))]

    expect(checkTree(tree)).toEqual([])
    expect(
      checkReachability(
        tree.objects.map(({ object }) => object),
        environment,
        readEgressPolicy(),
      ),
    ).toEqual([])
  })

  it('inserts them in a second container, which alone has the token for them', () => {
    const { containers, volumes } = podOf(withCredentials())
    const [first, second] = containers
    const tokenOf = ({ volumeMounts }: Fields) =>
      volumeMounts
        .map(({ name }: Fields) => volumes.find((volume: Fields) => volume.name === name))
        .flatMap(({ projected }: Fields) => projected?.sources ?? [])
        .map(({ serviceAccountToken }: Fields) => serviceAccountToken.audience)

    expect(containers.map(({ name, args }: Fields) => [name, args])).toEqual([
      ['egress-proxy', undefined],
      ['egress-credentials', ['credentials']],
    ])
    expect(tokenOf(first)).toEqual(['agentweaver-control'])
    expect(tokenOf(second)).toEqual(['api://AzureADTokenExchange', 'agentweaver-credentials'])
    expect(second.securityContext).toEqual(first.securityContext)
    // Its memory and its descriptors belong to another process.
    expect(podOf(withCredentials())).not.toHaveProperty('shareProcessNamespace')
  })

  it('reads the vault of users’ credentials on Azure only, with the identity of the proxy', () => {
    const environment = withCredentials('dev')
    const [first, second] = podOf(environment).containers
    const variableOf = ({ env }: Fields, name: string) => env.find((one: Fields) => one.name === name)?.value
    const { azure } = environment.infra

    expect(variableOf(second, 'AGENTWEAVER_EGRESS_VAULT_URL')).toBe(
      `https://${azure?.vaults.userTokens.host}`,
    )
    expect(variableOf(second, 'AZURE_CLIENT_ID')).toBe(azure?.identities.egressProxy.clientId)
    expect(variableOf(first, 'AGENTWEAVER_EGRESS_VAULT_URL')).toBeUndefined()
    expect(variableOf(first, 'AZURE_CLIENT_ID')).toBeUndefined()
    const [, local] = podOf(withCredentials('local')).containers
    expect(variableOf(local, 'AGENTWEAVER_EGRESS_VAULT_URL')).toBeUndefined()
  })

  it('lets the first container connect to the socket of the second one, and not replace it', () => {
    const mounts = podOf(withCredentials()).containers.map(({ volumeMounts }: Fields) =>
      volumeMounts.find(({ name }: Fields) => name === 'credentials'),
    )

    expect(mounts).toEqual([
      { name: 'credentials', mountPath: '/run/agentweaver/credentials', readOnly: true },
      { name: 'credentials', mountPath: '/run/agentweaver/credentials', readOnly: false },
    ])
  })

  it('gives the second container a /tmp for the sockets of checks that the first one cannot open', () => {
    const { containers, volumes } = podOf(withCredentials())
    const volumeAtTmp = ({ volumeMounts }: Fields) =>
      volumeMounts.find(({ mountPath }: Fields) => mountPath === '/tmp').name
    const [first, second] = containers
    const own = volumeAtTmp(second)

    expect(volumes).toContainEqual({ name: own, emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } })
    expect(first.volumeMounts.map(({ name }: Fields) => name)).not.toContain(own)
    expect(volumes.map(({ name }: Fields) => name)).toContain(volumeAtTmp(first))
  })

  it('gives the API their values from a Secret that the tree does not contain', () => {
    const environment = withCredentials('dev')
    const pod = ofProxy(environment, 'Deployment', 'agentweaver-api')['spec'].template.spec
    const files = ofProxy(environment, 'ConfigMap', 'agentweaver-policy')['data']
    const at = '/etc/agentweaver/credentials'

    expect(pod.volumes).toContainEqual({
      name: 'credentials',
      secret: { secretName: 'agentweaver-credentials', defaultMode: 0o440 },
    })
    expect(parseCredentialsFile(files['credentials.yaml'], 'credentials.yaml')).toEqual([
      { id: 'git', variable: 'GIT_TOKEN', file: `${at}/git` },
      {
        id: 'app',
        githubApp: { ...CREDENTIALS[1]?.githubApp, apiUrl: 'https://api.github.com', keyFile: `${at}/app` },
      },
      { id: 'corp', kind: 'client-certificate', file: `${at}/corp` },
    ])
    expect(pod.containers[0].env).toContainEqual({
      name: 'AGENTWEAVER_CREDENTIALS_FILE',
      value: '/etc/agentweaver/policy/credentials.yaml',
    })
    expect(() => ofProxy(environment, 'Secret', 'agentweaver-credentials')).toThrow()
  })

  it('needs no Secret if only owners have credentials', () => {
    const environment = inModeProxy('local', CREDENTIALS_SIZE, { credentials: [] })
    const pod = ofProxy(environment, 'Deployment', 'agentweaver-api')['spec'].template.spec
    const files = ofProxy(environment, 'ConfigMap', 'agentweaver-policy')['data']

    expect(checkTree(aTree(environment))).toEqual([])
    expect(podOf(environment).containers.map(({ name }: Fields) => name)).toContain('egress-credentials')
    expect(JSON.stringify([pod.volumes, pod.containers[0].volumeMounts])).not.toContain('credentials')
    expect(parseCredentialsFile(files['credentials.yaml'], 'credentials.yaml')).toEqual([])
    // The API has the process that inserts credentials.
    expect(pod.containers[0].env.map(({ name }: Fields) => name)).toContain('AGENTWEAVER_CREDENTIALS_FILE')
  })

  it('trusts the roots of the environment, as the API does', () => {
    const environment = withCredentials()
    const roots = ofProxy(environment, 'ConfigMap', 'agentweaver-egress-proxy-roots')['data']

    expect(roots).toEqual({ 'roots.pem': ROOT })
    expect(ofProxy(environment, 'ConfigMap', 'agentweaver-policy')['data']['roots.pem']).toBe(ROOT)
    for (const { env } of podOf(environment).containers)
      expect(env).toContainEqual({ name: 'NODE_EXTRA_CA_CERTS', value: '/etc/agentweaver/roots/roots.pem' })
  })

  it('lets the API reach the server that creates the tokens of a GitHub App', () => {
    expect(apiEgress(withCredentials())).toContain('{"matchName":"api.github.com"}')
    expect(apiEgress(inModeProxy('prod'))).not.toContain('github')
  })

  it('has room for both containers in the quota', () => {
    const { hard } = ofProxy(withCredentials('dev'), 'ResourceQuota', 'agentweaver-egress')['spec']

    expect(parseQuantity(hard['limits.memory'])).toBe(2 * 5 * 256 * 1_048_576)
  })
})

it.each([
  'https://a:b@github.corp.example.com',
  'https://*.example.com',
  'https://10.20.0.7',
  'https://github.corp.example.com:0',
  'http://127.0.0.1:8080',
])('a GitHub App may not be at %s', (apiUrl) => {
  const githubApp = { appId: 1, installationId: 2, repository: 'owner/name', apiUrl }
  expect(() => inModeProxy('dev', CREDENTIALS_SIZE, { credentials: [{ id: 'app', githubApp }] })).toThrow(
    'egress.credentials.0.githubApp.apiUrl: must be',
  )
})

describe('behind the proxy of a company', () => {
  const NAMED = { url: 'http://proxy.corp.example.com:3128', addresses: ['192.168.7.0/30'] }
  const behind = (name: EnvironmentName, upstreamProxy: object) =>
    inModeProxy(name, CREDENTIALS_SIZE, { credentials: CREDENTIALS, upstreamProxy })
  const proxyEgress = (environment: Environment): string =>
    JSON.stringify(ofProxy(environment, 'CiliumNetworkPolicy', 'proxy-egress')['spec'])

  it.each(['dev', 'local', 'prod', 'pr-example'] as const)('the tree of %s passes every check', (name) => {
    for (const upstreamProxy of [NAMED, { url: 'http://192.168.7.9:3128' }]) {
      const environment = behind(name, upstreamProxy)
      const tree = aTree(environment)

      expect(checkTree(tree)).toEqual([])
      expect(
        checkReachability(
          tree.objects.map(({ object }) => object),
          environment,
          readEgressPolicy(),
        ),
      ).toEqual([])
    }
  })

  it('the replicas and the API know it, and may reach its addresses at its port', () => {
    const environment = behind('prod', NAMED)
    const known = { name: 'AGENTWEAVER_EGRESS_UPSTREAM_PROXY', value: NAMED.url }
    const rule =
      '{"toCIDRSet":[{"cidr":"192.168.7.0/30"}],"toPorts":[{"ports":[{"port":"3128","protocol":"TCP"}]}]}'

    for (const { env } of podOf(environment).containers) expect(env).toContainEqual(known)
    expect(
      ofProxy(environment, 'Deployment', 'agentweaver-api')['spec'].template.spec.containers[0].env,
    ).toContainEqual(known)
    expect(proxyEgress(environment)).toContain(rule)
    expect(apiEgress(environment)).toContain(rule)
    expect(apiEgress(environment)).not.toContain('api.github.com')
    expect(proxyEgress(withCredentials())).not.toContain('192.168.7.0/30"}')
  })

  it.for<[string, object, string]>([
    ['a name without addresses', { url: NAMED.url }, 'egress.upstreamProxy.addresses: is missing'],
    [
      'an address twice',
      { url: 'http://192.168.7.9:3128', addresses: ['192.168.7.9'] },
      'is there, but the URL',
    ],
    ['a part of a network', { url: NAMED.url, addresses: ['192.168.0.0/16'] }, 'must be at most 256'],
    ['port 0', { url: 'http://192.168.7.9:0' }, 'egress.upstreamProxy.url: must be http://HOST:PORT'],
    [
      'a password',
      { url: 'http://a:b@192.168.7.9:3128' },
      'egress.upstreamProxy.url: must be http://HOST:PORT',
    ],
  ])('is rejected with %s', ([_what, upstreamProxy, message]) => {
    expect(() => behind('dev', upstreamProxy)).toThrow(message)
  })

  it('may not be in the cluster', () => {
    const cluster = behind('dev', { ...NAMED, addresses: ['10.0.0.7'] })

    expect(
      forbiddenEndpoints(cluster, resolveEgress(readEgressPolicy(), placeholderValues(cluster))),
    ).toEqual([expect.stringContaining('10.0.0.7/32 of proxy.corp.example.com overlaps')])
  })
})

describe('a pod of the egress proxy', () => {
  it('runs without rights: no root, no capability, no writable root, no token of the Kubernetes API', () => {
    const pod = podOf(inModeProxy('local'))
    const [container, ...others] = pod.containers

    expect(others).toEqual([])
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      hostNetwork: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    })
    expect(container.securityContext).toMatchObject({
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      privileged: false,
      capabilities: { drop: ['ALL'] },
    })
  })

  it('has one token, which only the API accepts', () => {
    const { volumes, containers } = podOf(inModeProxy('local'))
    const tokens = volumes.flatMap(({ projected }: Fields) => projected?.sources ?? [])

    expect(tokens).toEqual([
      { serviceAccountToken: { audience: 'agentweaver-control', expirationSeconds: 600, path: 'token' } },
    ])
    expect(containers[0].env).toEqual([
      {
        name: 'AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE',
        value: '/var/run/secrets/agentweaver/control/token',
      },
      {
        name: 'AGENTWEAVER_EGRESS_CONTROL_URL',
        value: 'http://agentweaver-egress-control.agentweaver.svc.cluster.local:8082',
      },
    ])
  })

  it('asks the resolver only for the name that it looks up', () => {
    expect(podOf(inModeProxy('prod')).dnsConfig).toEqual({ options: [{ name: 'ndots', value: '1' }] })
  })

  it('spreads over nodes and zones, and keeps its connections while it stops', () => {
    const pod = podOf(inModeProxy('prod'))

    expect(pod.topologySpreadConstraints.map(({ topologyKey }: Fields) => topologyKey)).toEqual([
      'kubernetes.io/hostname',
      'topology.kubernetes.io/zone',
    ])
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(
      25 + pod.containers[0].lifecycle.preStop.sleep.seconds,
    )
  })
})

describe('the egress proxy', () => {
  it('reaches the API also while no replica of the API is ready', () => {
    const environment = inModeProxy('dev')
    const service = ofProxy(environment, 'Service', 'agentweaver-egress-control')
    const api = ofProxy(environment, 'Deployment', 'agentweaver-api')

    expect(service['spec'].publishNotReadyAddresses).toBe(true)
    expect(service['spec'].selector).toEqual(api['spec'].selector.matchLabels)
    expect(service['spec'].ports).toEqual([
      { name: 'control', port: 8082, protocol: 'TCP', targetPort: 8082 },
    ])
  })

  it('is scaled by an autoscaler that alone sets the number of replicas', () => {
    const environment = inModeProxy('dev')

    expect(ofProxy(environment, 'Deployment')['spec'].replicas).toBeUndefined()
    expect(ofProxy(environment, 'HorizontalPodAutoscaler')['spec']).toMatchObject({
      minReplicas: 2,
      maxReplicas: 4,
    })
  })

  it('has a fixed number of replicas without room for more', () => {
    const environment = inModeProxy('dev', { ...CREDENTIALS_SIZE, maxReplicas: 2 })

    expect(ofProxy(environment, 'Deployment')['spec'].replicas).toBe(2)
    expect(() => ofProxy(environment, 'HorizontalPodAutoscaler')).toThrow()
  })

  it('has a quota with room for every replica and for one more during a rollout', () => {
    const { hard } = ofProxy(inModeProxy('local'), 'ResourceQuota', 'agentweaver-egress')['spec']

    expect(hard.pods).toBe('5')
    expect(parseQuantity(hard['limits.memory'])).toBe(5 * 256 * 1_048_576)
    expect(parseQuantity(hard['limits.cpu'])).toBe(5)
  })

  it('reports to the collector of the environment', () => {
    expect(ofProxy(inModeProxy('local'), 'PodMonitor')['apiVersion']).toBe('monitoring.coreos.com/v1')
    expect(ofProxy(inModeProxy('dev'), 'PodMonitor')['apiVersion']).toBe('azmonitoring.coreos.com/v1')
    const rules = JSON.stringify(ofProxy(inModeProxy('local'), 'PrometheusRule', 'agentweaver-api'))
    expect(rules).toContain('AgentweaverEgressProxyDown')
  })

  it.each(['fqdn', 'closed'])('has no object in mode %s, and its namespace has no room for a pod', (mode) => {
    const tree = aTree(loadedWith('dev', (value) => setEgress(value, { mode })))

    const inNamespace = tree.objects
      .filter(({ object }) => object.metadata.namespace === 'agentweaver-egress')
      .map(({ object }) => object.kind)
    expect(inNamespace.toSorted()).toEqual(['ConfigMap', 'NetworkPolicy', 'ResourceQuota'])
    expect(objectIn(tree, 'ResourceQuota', 'agentweaver-egress')['spec']).toEqual({ hard: { pods: '0' } })
    expect(() => objectIn(tree, 'Service', 'agentweaver-egress-control')).toThrow()
  })
})
