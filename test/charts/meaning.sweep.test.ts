import { describe, expect, it } from 'vitest'
import { PRUNED_KINDS } from '../../charts-src/apply/prune.ts'
import { API_RULES } from '../../charts-src/apps/api.ts'
import { checkTree } from '../../charts-src/checks/check-tree.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { waveOf } from '../../charts-src/tree/wave.ts'
import {
  anEnvironment,
  appsOf,
  aTree,
  ENVIRONMENTS,
  type EnvironmentName,
  environmentText,
  objectIn,
  setEgress,
} from './fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: a pod as it is rendered
type Fields = any

const podOf = (name: EnvironmentName, kind: 'agent' | 'command'): Fields => {
  const tree = aTree(anEnvironment(name))
  const template = tree.objects.find(
    ({ object }) => object.kind === 'SandboxTemplate' && object.metadata.name.endsWith(`-${kind}`),
  )
  if (!template) throw new Error(`${name} has no template for ${kind}`)
  return template.object['spec'].podTemplate.spec
}
const container = (pod: Fields, name: string): Fields =>
  pod.containers.find((one: Fields) => one.name === name)
const mounts = (one: Fields): string[] => one.volumeMounts.map(({ mountPath }: Fields) => mountPath)
const audiences = (pod: Fields): string[] =>
  pod.volumes.flatMap(({ projected }: Fields) =>
    ((projected?.sources ?? []) as Fields[]).map(({ serviceAccountToken }) =>
      String(serviceAccountToken.audience),
    ),
  )
const changed = (change: (value: Fields) => void): Environment => {
  const value = JSON.parse(environmentText('dev'))
  change(value)
  const loaded = loadEnvironment('dev', JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

describe.each(ENVIRONMENTS)('the sandboxes of %s', (name) => {
  it.each(['agent', 'command'] as const)(
    'keep the workspace in the toolbox and tokens in the host (%s)',
    (kind) => {
      const pod = podOf(name, kind)

      expect(mounts(container(pod, 'toolbox'))).toEqual(['/home/sandbox', '/tmp', '/workspace'])
      expect(mounts(container(pod, 'agent-host'))).not.toContain('/workspace')
      expect(pod.containers.map((one: Fields) => one.name)).toEqual(['agent-host', 'toolbox'])
      expect(pod.automountServiceAccountToken).toBe(false)
      const shared = mounts(container(pod, 'toolbox')).filter((path) => path !== '/tmp')
      expect(shared.filter((path) => mounts(container(pod, 'agent-host')).includes(path))).toEqual([])
    },
  )

  it.each(['agent', 'command'] as const)('are hardened in every field (%s)', (kind) => {
    const pod = podOf(name, kind)

    for (const one of pod.containers) {
      expect(one.securityContext).toMatchObject({
        runAsNonRoot: true,
        privileged: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
        seccompProfile: { type: 'RuntimeDefault' },
      })
      expect(one.resources.requests.memory).toBe(one.resources.limits.memory)
      expect(Object.keys(one.resources.limits)).toEqual(['cpu', 'ephemeral-storage', 'memory'])
    }
    expect(pod).toMatchObject({ restartPolicy: 'Never', hostNetwork: false, hostPID: false, hostIPC: false })
    const folders = pod.volumes.filter((volume: Fields) => volume.emptyDir)
    expect(folders.every(({ emptyDir }: Fields) => emptyDir.sizeLimit)).toBe(true)
    expect(pod.volumes.filter((volume: Fields) => volume.hostPath ?? volume.secret)).toEqual([])
  })
})

describe('the sandboxes of Azure', () => {
  it.each(['agent', 'command'] as const)('have no Azure identity in the class %s', (kind) => {
    expect(audiences(podOf('prod', kind))).toEqual(['agentweaver-api'])
    expect(JSON.stringify(container(podOf('prod', kind), 'agent-host').env)).not.toMatch(/AZURE|VAULT/)
  })

  it('must stand on Kata nodes: the pod asks, and so does the runtime class', () => {
    const pod = podOf('prod', 'agent')

    expect(pod.runtimeClassName).toBe('agentweaver-kata')
    expect(JSON.stringify(pod.affinity)).toContain('requiredDuringScheduling')
    expect(JSON.stringify(pod.affinity)).not.toContain('preferred')
    expect(objectIn(aTree(anEnvironment('prod')), 'RuntimeClass')).toMatchObject({
      handler: 'kata',
      overhead: { podFixed: { memory: '256Mi' } },
      scheduling: { nodeSelector: { 'agentweaver.io/kata': 'true' } },
    })
  })
})

describe('an option of the environment', () => {
  it('closed disables name resolution: no resolver is reachable', () => {
    const tree = aTree(changed((value) => setEgress(value, { mode: 'closed' })))

    expect(objectIn(tree, 'SandboxTemplate')['spec'].podTemplate.spec).toMatchObject({
      dnsPolicy: 'None',
      dnsConfig: { nameservers: ['127.0.0.1'] },
    })
  })

  it('volume gives each sandbox its own volume, and adds the storage class', () => {
    const tree = aTree(changed((value) => (value['sizes'].sandboxes.workspace = 'volume')))

    const { spec } = objectIn(tree, 'SandboxTemplate') as Fields
    expect(spec.volumeClaimTemplates[0]).toMatchObject({
      metadata: { name: 'workspace' },
      spec: { storageClassName: 'agentweaver-workspace', resources: { requests: { storage: '4Gi' } } },
    })
    expect(spec.podTemplate.spec.volumes.map((volume: Fields) => volume.name)).not.toContain('workspace')
    expect(objectIn(tree, 'StorageClass')['reclaimPolicy']).toBe('Delete')
    expect(objectIn(tree, 'ResourceQuota', 'agentweaver-sandboxes')['spec'].hard.persistentvolumeclaims).toBe(
      '21',
    )
  })

  it('autoscaler leaves the number of a pool out, so that nothing sets it back', () => {
    const tree = aTree(
      changed((value) => (value['sizes'].sandboxes.agent.warm = { owner: 'autoscaler', max: 2 })),
    )

    expect(objectIn(tree, 'SandboxWarmPool', 'agentweaver-agent')['spec']).not.toHaveProperty('replicas')
    expect(objectIn(tree, 'SandboxWarmPool', 'agentweaver-command')['spec'].replicas).toBe(3)
  })

  it('a pool without warm sandboxes raises no alert when it is empty', () => {
    const tree = aTree(
      changed((value) => {
        value['infra'].monitoring.collector = 'operator'
        value['sizes'].sandboxes.agent.warm = { owner: 'tree', replicas: 0 }
      }),
    )

    const [group] = objectIn(tree, 'PrometheusRule')['spec'].groups
    const empty = group.rules.map((rule: Fields) => rule.alert).filter((name: string) => /Empty/.test(name))
    expect(empty).toEqual(['AgentweaverPoolEmpty-command'])
  })

  it('isolation none sets no runtime class and creates none', () => {
    const tree = aTree(changed((value) => (value['isolation'] = 'none')))

    expect(objectIn(tree, 'SandboxTemplate')['spec'].podTemplate.spec).not.toHaveProperty('runtimeClassName')
    expect(tree.objects.filter(({ object }) => object.kind === 'RuntimeClass')).toEqual([])
  })

  it.each([
    ['none', []],
    ['azure', ['azmonitoring.coreos.com/v1 PodMonitor', 'azmonitoring.coreos.com/v1 PodMonitor']],
    [
      'operator',
      [
        'monitoring.coreos.com/v1 PodMonitor',
        'monitoring.coreos.com/v1 PodMonitor',
        'monitoring.coreos.com/v1 PrometheusRule',
      ],
    ],
  ])('collected by %s has no object without a reader', (collector, expected) => {
    const tree = aTree(changed((value) => (value['infra'].monitoring.collector = collector)))

    const found = tree.objects.filter(({ object }) => /Monitor|PrometheusRule/.test(object.kind))
    expect(found.map(({ object }) => `${object.apiVersion} ${object.kind}`).sort()).toEqual(expected)
  })
})

describe('the API', () => {
  it('may do exactly this in the namespace of the sandboxes, and nothing elsewhere', () => {
    const tree = aTree(anEnvironment('prod'))

    const roles = tree.objects.filter(({ object }) => object.kind === 'Role').map(({ object }) => object)
    expect(roles.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).sort()).toEqual([
      'agentweaver-sandboxes/agentweaver-api',
    ])
    expect(
      API_RULES.flatMap(({ resources, verbs }) => resources.map((one) => [one, ...verbs].join(' '))),
    ).toEqual(['sandboxclaims create delete get list patch watch', 'sandboxes list watch', 'pods get'])
  })

  it('shows the world its API and its description, and neither metrics nor health', () => {
    const route = objectIn(aTree(anEnvironment('prod')), 'HTTPRoute', 'agentweaver-api')

    const [rule] = route['spec'].rules
    expect(rule.matches.map(({ path }: Fields) => path.value)).toEqual(['/api', '/openapi.json'])
    expect(rule.timeouts).toEqual({ request: '0s', backendRequest: '0s' })
  })

  it.each(ENVIRONMENTS)('accepts only the host names that %s routes to it', (name) => {
    const { objects } = aTree(anEnvironment(name))
    const deployment = objects.find(({ object }) => object.kind === 'Deployment')?.object as Fields
    const [api] = deployment.spec.template.spec.containers
    const { value } = api.env.find((entry: Fields) => entry.name === 'AGENTWEAVER_ALLOWED_HOSTS')
    const routes = objects.filter(({ object }) => object.kind === 'HTTPRoute') as Fields[]
    const named = routes
      .filter(({ object }) => object.spec.rules.some((rule: Fields) => rule.backendRefs))
      .flatMap(({ object }) => object.spec.hostnames)
    const { namespace } = deployment.metadata
    const service = `${deployment.metadata.name}.${namespace}.svc`

    expect(value.split(',')).toEqual([...named, `${service}:8080`, `${service}.cluster.local:8080`])
    expect(named).toHaveLength(1)
    // A probe without a Host header uses the pod's address, which the API accepts by default.
    for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'])
      expect(api[probe].httpGet).not.toHaveProperty('httpHeaders')
  })

  it('can always be drained from a node, also when there is one of it', () => {
    for (const name of ENVIRONMENTS) {
      const budget = objectIn(aTree(anEnvironment(name)), 'PodDisruptionBudget')
      expect(budget['spec']).toMatchObject({ maxUnavailable: 1 })
    }
  })
})

describe('the order of a tree', () => {
  it.each([
    [
      ['foundation', 'Namespace'],
      ['foundation', 'ResourceQuota'],
    ],
    [
      ['foundation', 'ResourceQuota'],
      ['network', 'NetworkPolicy'],
    ],
    [
      ['network', 'NetworkPolicy'],
      ['sandboxes', 'SandboxTemplate'],
    ],
    [
      ['admission', 'ValidatingAdmissionPolicyBinding'],
      ['sandboxes', 'SandboxTemplate'],
    ],
    [
      ['sandboxes', 'ServiceAccount'],
      ['sandboxes', 'SandboxTemplate'],
    ],
    [
      ['sandboxes', 'SandboxTemplate'],
      ['sandboxes', 'SandboxWarmPool'],
    ],
    [
      ['sandboxes', 'SandboxWarmPool'],
      ['api', 'Deployment'],
    ],
    [
      ['api', 'ServiceAccount'],
      ['api', 'Deployment'],
    ],
  ] as const)('has %s before %s', ([firstApp, first], [thenApp, then]) => {
    expect(waveOf(firstApp, first)).toBeLessThan(waveOf(thenApp, then))
  })

  it('follows the sync waves and the kustomizations', () => {
    for (const { objects } of appsOf(anEnvironment('prod'))) {
      const waves = objects.map(({ metadata }) =>
        Number(metadata.annotations?.['argocd.argoproj.io/sync-wave']),
      )
      expect(waves).toEqual(waves.toSorted((a, b) => a - b))
    }
  })
})

describe('the way out of a sandbox', () => {
  const envOf = (environment: Environment, kind: string, container: string): Fields => {
    const template = objectIn(aTree(environment), 'SandboxTemplate', `agentweaver-${kind}`)
    const found = template['spec'].podTemplate.spec.containers.find((one: Fields) => one.name === container)
    return Object.fromEntries(found.env.map(({ name, value }: Fields) => [name, value]))
  }
  const reach = ({ HTTPS_PROXY, NO_PROXY }: Fields) => ({ HTTPS_PROXY, NO_PROXY })
  const none = { HTTPS_PROXY: undefined, NO_PROXY: undefined }
  const withProxy = (proxyAddress: string, serviceCidrs = ['10.0.0.0/16']) =>
    changed((value) => {
      setEgress(value, { mode: 'proxy', proxyAddress })
      value.infra.network.serviceCidrs = serviceCidrs
    })

  it('is the proxy in mode proxy, by the address of its Service, for AgentHost if there is an agent', () => {
    const environment = withProxy('10.0.0.20')

    const service = objectIn(aTree(environment), 'Service', 'agentweaver-egress-proxy')
    expect(service.metadata.namespace).toBe('agentweaver-egress')
    expect(service['spec']).toMatchObject({ clusterIP: '10.0.0.20', ports: [{ port: 3128 }] })
    expect(reach(envOf(environment, 'agent', 'agent-host'))).toEqual({
      HTTPS_PROXY: 'http://10.0.0.20:3128',
      NO_PROXY: 'localhost,127.0.0.1,::1',
    })
    expect(reach(envOf(environment, 'agent', 'toolbox'))).toEqual(none)
    expect(reach(envOf(environment, 'command', 'agent-host'))).toEqual(none)
    for (const kind of ['agent', 'command'])
      expect(envOf(environment, kind, 'toolbox')['AGENTWEAVER_EGRESS_ADDRESS']).toBe('10.0.0.20:3128')
    expect(checkTree(aTree(environment))).toEqual([])
  })

  it('is written in URL notation if services have IPv6 addresses', () => {
    const environment = withProxy('fd00:5::20', ['10.0.0.0/16', 'fd00:5::/108'])

    expect(envOf(environment, 'agent', 'agent-host')['HTTPS_PROXY']).toBe('http://[fd00:5::20]:3128')
    expect(envOf(environment, 'agent', 'toolbox')['AGENTWEAVER_EGRESS_ADDRESS']).toBe('[fd00:5::20]:3128')
    expect(objectIn(aTree(environment), 'Service', 'agentweaver-egress-proxy')['spec']).toMatchObject({
      ipFamilies: ['IPv6'],
    })
    expect(checkTree(aTree(environment))).toEqual([])
  })

  it.each(['fqdn', 'closed'])('is configured in no container in mode %s', (mode) => {
    const environment = changed((value) => setEgress(value, { mode }))

    expect(reach(envOf(environment, 'agent', 'agent-host'))).toEqual(none)
    expect(envOf(environment, 'agent', 'toolbox')).not.toHaveProperty('AGENTWEAVER_EGRESS_ADDRESS')
    expect(() => objectIn(aTree(environment), 'Service', 'agentweaver-egress-proxy')).toThrow()
  })

  it.each<[string, (env: Fields[]) => Fields[], string]>([
    ['lacks', (env) => env.filter(({ name }) => name !== 'HTTPS_PROXY'), 'HTTPS_PROXY is missing'],
    ['lacks its exception', (env) => env.filter(({ name }) => name !== 'NO_PROXY'), 'NO_PROXY is missing'],
    [
      'is elsewhere',
      (env) =>
        env.map((one) => (one.name === 'HTTPS_PROXY' ? { ...one, value: 'http://10.0.0.21:3128' } : one)),
      'HTTPS_PROXY is http://10.0.0.21:3128, where no egress proxy listens',
    ],
  ])('is reported as wrong by a check if it %s', (_how, change, message) => {
    const tree = aTree(withProxy('10.0.0.20'))
    const [host] = objectIn(tree, 'SandboxTemplate', 'agentweaver-agent')['spec'].podTemplate.spec.containers
    host.env = change(host.env)

    expect(checkTree(tree).map((finding) => finding.message)).toEqual([
      expect.stringContaining(`agent-host: ${message}`),
    ])
  })

  it.each<[string, Fields[], string]>([
    ['lacks', [], 'AGENTWEAVER_EGRESS_ADDRESS is missing: commands have no other way out'],
    [
      'has elsewhere',
      [{ name: 'AGENTWEAVER_EGRESS_ADDRESS', value: '10.0.0.21:3128' }],
      'AGENTWEAVER_EGRESS_ADDRESS is 10.0.0.21:3128, where no egress proxy listens',
    ],
  ])('is reported as wrong by a check if the toolbox %s it', (_how, address, message) => {
    const tree = aTree(withProxy('10.0.0.20'))
    const template = objectIn(tree, 'SandboxTemplate', 'agentweaver-command')
    const toolbox = template['spec'].podTemplate.spec.containers[1]
    toolbox.env = [
      ...toolbox.env.filter(({ name }: Fields) => name !== 'AGENTWEAVER_EGRESS_ADDRESS'),
      ...address,
    ]

    expect(checkTree(tree).map((finding) => finding.message)).toEqual([`toolbox: ${message}`])
  })
})

describe('a tree', () => {
  it('of a preview has objects only in its own three namespaces, and no names of the base', () => {
    const { objects } = aTree(anEnvironment('pr-example'))

    const namespaces = new Set(objects.map(({ object }) => object.metadata.namespace))
    expect([...namespaces].sort()).toEqual(
      ['', '-egress', '-sandboxes'].map((suffix) => `aw-pr-example-50d858${suffix}`),
    )
  })

  it('has no kind that prune would forget', () => {
    const kinds = ENVIRONMENTS.flatMap((name) =>
      aTree(anEnvironment(name)).objects.map(({ object }) => object.kind),
    )

    expect([...new Set(kinds)].filter((kind) => kind !== 'Namespace' && !(kind in PRUNED_KINDS))).toEqual([])
  })
})
