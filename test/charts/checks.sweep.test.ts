import { describe, expect, it } from 'vitest'
import { CHECKS, checkTree } from '../../charts-src/checks/check-tree.ts'
import { describeFinding } from '../../charts-src/checks/checked-tree.ts'
import { names } from '../../contracts/names.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { anEnvironment, aTree, ENVIRONMENTS, objectIn } from './fixture.ts'

type Tree = ReturnType<typeof aTree>
type Planted = readonly [
  check: keyof typeof CHECKS,
  fault: string,
  plant: (tree: Tree) => void,
  message: string,
]

const pod = (tree: Tree, name = 'agentweaver-agent') =>
  objectIn(tree, 'SandboxTemplate', name)['spec'].podTemplate.spec
const add = (tree: Tree, object: KubeObject) => tree.objects.push({ path: 'planted.yaml', object })
const remove = (tree: Tree, kind: string, name: string) => {
  const index = tree.objects.findIndex(({ object }) => object.kind === kind && object.metadata.name === name)
  tree.objects.splice(index, 1)
}
const configMap = (metadata: object, data = {}): KubeObject =>
  ({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }) as KubeObject
const rule = (fields: object) => ({ apiGroups: [''], resources: ['pods'], verbs: ['get'], ...fields })
const giving = (fields: object) => (tree: Tree) => {
  objectIn(tree, 'Role', 'agentweaver-api')['rules'].push(rule(fields))
}
const home = { namespace: 'agentweaver' }

const PLANTED: readonly Planted[] = [
  [
    'wayOut',
    'a proxy where none is used',
    (tree) => pod(tree).containers[1].env.push({ name: 'HTTPS_PROXY', value: 'http://10.0.0.20:3128' }),
    'toolbox: HTTPS_PROXY names a proxy where none is used',
  ],
  [
    'duplicates',
    'an object that stands twice',
    (tree) => add(tree, objectIn(tree, 'Service')),
    'Service agentweaver-api stands in api/agentweaver/Service.agentweaver-api.yaml too',
  ],
  [
    'nameForms',
    'a name that no API server takes',
    (tree) => add(tree, configMap({ ...home, name: 'Über' })),
    '"Über" is no name for a ConfigMap',
  ],
  [
    'nameForms',
    'a Service whose name is no DNS label',
    (tree) => Object.assign(objectIn(tree, 'Service').metadata, { name: 'a.b' }),
    '"a.b" is no name for a Service',
  ],
  [
    'nameForms',
    'a value that no label may have',
    (tree) => add(tree, configMap({ ...home, name: 'a', labels: { x: 'a b' } })),
    'label x has a value that no label may have: "a b"',
  ],
  [
    'namespaces',
    'an object in a foreign namespace',
    (tree) => add(tree, configMap({ name: 'a', namespace: 'kube-system' })),
    'namespace kube-system is not one of agentweaver, agentweaver-sandboxes, agentweaver-egress',
  ],
  [
    'namespaces',
    'an object without a namespace',
    (tree) => add(tree, configMap({ name: 'a' })),
    'ConfigMap a has no namespace',
  ],
  [
    'namespaces',
    'a namespace that does not exist',
    (tree) => remove(tree, 'Namespace', 'agentweaver-egress'),
    'nothing makes the namespace agentweaver-egress',
  ],
  [
    'namespaces',
    'a cluster’s kind in a namespace',
    (tree) => Object.assign(objectIn(tree, 'PriorityClass').metadata, home),
    'a PriorityClass has no namespace',
  ],
  [
    'images',
    'an image by its tag',
    (tree) => (pod(tree).containers[0].image = 'agentweaverdev.azurecr.io/agentweaver/agent-host:1'),
    'image of agent-host is not pinned by digest alone',
  ],
  [
    'images',
    'a tag together with a digest',
    (tree) => (pod(tree).containers[1].image = pod(tree).containers[1].image.replace('@', ':1@')),
    'image of toolbox is not pinned by digest alone',
  ],
  [
    'images',
    'an image of another registry',
    (tree) => (pod(tree).containers[0].image = `docker.io/a/b@sha256:${'a'.repeat(64)}`),
    'image of agent-host is not from agentweaverdev.azurecr.io',
  ],
  [
    'images',
    'an init container without a digest',
    (tree) => (pod(tree).initContainers = [{ name: 'init', image: 'agentweaverdev.azurecr.io/a' }]),
    'image of init is not pinned by digest alone',
  ],
  [
    'secrets',
    'a Secret with data',
    (tree) => add(tree, { ...configMap({ ...home, name: 'a' }, { token: 'c2VjcmV0' }), kind: 'Secret' }),
    'Secret a has data',
  ],
  [
    'secrets',
    'a Secret with plain data',
    (tree) => add(tree, { ...configMap({ ...home, name: 'a' }), kind: 'Secret', stringData: { token: 'x' } }),
    'Secret a has data',
  ],
  [
    'secrets',
    'a private key in a ConfigMap',
    (tree) =>
      (objectIn(tree, 'ConfigMap', 'agentweaver-executor-keys')['data']['jwks.json'] =
        `{"kty":"OKP","d":"${'A'.repeat(43)}"}`),
    'holds a credential',
  ],
  [
    'secrets',
    'a password in an address',
    (tree) =>
      (objectIn(tree, 'Deployment')['spec'].template.spec.containers[0].env[0].value =
        'postgresql://api:hunter2@db.example/x'),
    'holds a credential',
  ],
  [
    'claimVersion',
    'another version of the claim API',
    (tree) =>
      Object.assign(objectIn(tree, 'SandboxTemplate'), { apiVersion: 'extensions.agents.x-k8s.io/v1alpha1' }),
    'extensions.agents.x-k8s.io/v1alpha1 is not version v1beta1',
  ],
  [
    'variables',
    'a key that AgentHost does not know',
    (tree) => pod(tree).containers[0].env.push({ name: 'AGENT_HOST_PROT', value: '1' }),
    'agent-host: ',
  ],
  [
    'variables',
    'a value that AgentHost refuses',
    (tree) =>
      (pod(tree).containers[0].env.find(({ name }: { name: string }) => name === 'AGENT_HOST_PORT').value =
        'eighty'),
    'agent-host: AGENT_HOST_PORT',
  ],
  [
    'variables',
    'a variable that the kubelet would have to guess',
    (tree) =>
      (pod(tree).containers[0].env[0] = {
        name: 'AGENT_HOST_LOG_LEVEL',
        valueFrom: { secretKeyRef: { name: 'a', key: 'b' } },
      }),
    'agent-host: nothing says what AGENT_HOST_LOG_LEVEL would be',
  ],
  [
    'variables',
    'a variable that nothing reads',
    (tree) => pod(tree).containers[1].env.push({ name: 'DEBUG', value: '*' }),
    'toolbox: nothing reads DEBUG',
  ],
  [
    'variables',
    'a variable that stands twice',
    (tree) => pod(tree).containers[1].env.push(pod(tree).containers[1].env[0]),
    'toolbox: AGENTWEAVER_EGRESS_ADDRESS stands twice',
  ],
  [
    'variables',
    'an unknown container',
    (tree) => pod(tree).containers.push({ ...pod(tree).containers[1], name: 'sidecar' }),
    'nothing says what the container sidecar reads',
  ],
  [
    'variables',
    'a key that the API does not know',
    (tree) =>
      objectIn(tree, 'Deployment')['spec'].template.spec.containers[0].env.push({
        name: 'AGENTWEAVER_DEBUG',
        value: '1',
      }),
    'api: ',
  ],
  [
    'quotaCoversPools',
    'a pool that grows beyond the quota',
    (tree) => (objectIn(tree, 'SandboxWarmPool', 'agentweaver-agent')['spec'].replicas = 9),
    'requests.memory is 45312Mi, below',
  ],
  [
    'quotaCoversPools',
    'overhead that grows beyond the quota',
    (tree) => (objectIn(tree, 'RuntimeClass')['overhead'].podFixed.memory = '600Mi'),
    'limits.memory is 45312Mi, below',
  ],
  [
    'quotaCoversPools',
    'a container without limits, which no quota bounds',
    (tree) => (pod(tree).containers[0].resources.limits = {}),
    'limits.cpu is 40500m, below Infinity',
  ],
  [
    'quotaCoversPools',
    'fewer pods than claims',
    (tree) => (objectIn(tree, 'ResourceQuota', 'agentweaver-sandboxes')['spec'].hard.pods = '20'),
    'pods is 20, below 21',
  ],
  [
    'selectors',
    'a Service that selects nothing',
    (tree) => (objectIn(tree, 'Service')['spec'].selector = { app: 'api' }),
    'the selector of this Service matches no pod',
  ],
  [
    'selectors',
    'a Service that selects the Gateways too',
    (tree) => (objectIn(tree, 'Service')['spec'].selector = {}),
    ' and Deployment agentweaver-api and agentweaver-api and agentweaver-preview',
  ],
  [
    'selectors',
    'a policy whose label nothing carries',
    (tree) =>
      (objectIn(tree, 'NetworkPolicy', 'sandbox-from-api')['spec'].podSelector.matchLabels = { run: 'x' }),
    'this NetworkPolicy selects no pod',
  ],
  [
    'selectors',
    'a Cilium policy whose label nothing carries',
    (tree) =>
      (objectIn(tree, 'CiliumNetworkPolicy', 'proxy-egress')['spec'].endpointSelector.matchLabels[
        'k8s:app.kubernetes.io/component'
      ] = 'proxies'),
    'this CiliumNetworkPolicy selects no pod',
  ],
  [
    'references',
    'a pool of a template that is not there',
    (tree) => remove(tree, 'SandboxTemplate', 'agentweaver-command'),
    'there is no SandboxTemplate agentweaver-command in agentweaver-sandboxes',
  ],
  [
    'references',
    'a pod of an account that is not there',
    (tree) => (pod(tree).serviceAccountName = 'default'),
    'there is no ServiceAccount default in agentweaver-sandboxes',
  ],
  [
    'references',
    'a runtime class that is not there',
    (tree) => (pod(tree).runtimeClassName = 'kata-qemu'),
    'there is no RuntimeClass kata-qemu',
  ],
  [
    'references',
    'a ConfigMap that is not there',
    (tree) => remove(tree, 'ConfigMap', 'agentweaver-executor-keys'),
    'there is no ConfigMap agentweaver-executor-keys in agentweaver-sandboxes',
  ],
  [
    'references',
    'a route to a Service that is not there',
    (tree) => remove(tree, 'Service', 'agentweaver-api'),
    'there is no Service agentweaver-api in agentweaver',
  ],
  [
    'references',
    'a right for a missing ServiceAccount',
    (tree) => (objectIn(tree, 'RoleBinding', 'agentweaver-api')['subjects'][0].name = 'api'),
    'there is no ServiceAccount api in agentweaver',
  ],
  [
    'rights',
    'rights in the whole cluster',
    (tree) =>
      add(tree, { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'a' } }),
    'rights of ours are never the whole cluster’s',
  ],
  ['rights', 'every resource', giving({ resources: ['*'] }), 'a rule gives every resource'],
  ['rights', 'every group', giving({ apiGroups: ['*'] }), 'the rule of pods gives every group'],
  ['rights', 'every verb', giving({ verbs: ['*'] }), 'the rule of pods gives the verb *'],
  [
    'rights',
    'a verb that hands rights on',
    giving({ verbs: ['impersonate'] }),
    'the rule of pods gives the verb impersonate',
  ],
  [
    'rights',
    'a shell in every sandbox',
    giving({ resources: ['pods/exec'], verbs: ['create'] }),
    'a rule gives pods/exec',
  ],
  ['rights', 'secrets', giving({ resources: ['secrets'] }), 'a rule gives secrets'],
  [
    'rights',
    'the right to give rights',
    giving({ apiGroups: ['rbac.authorization.k8s.io'] }),
    'a rule gives rbac.authorization.k8s.io',
  ],
  [
    'enforceablePolicies',
    'a policy that only the agent would refuse',
    (tree) =>
      objectIn(tree, 'CiliumNetworkPolicy', 'proxy-egress')['spec'].egress.push({
        toFQDNs: [{ matchName: 'a.example' }],
        toCIDR: ['10.0.0.0/8'],
      }),
    'CiliumNetworkPolicy agentweaver-egress/proxy-egress',
  ],
]

const PLANTS = PLANTED.map(([check, fault, plant, message]) => ({ check, fault, plant, message }))

describe('the checks of a tree', () => {
  it.each(ENVIRONMENTS)('report nothing for the rendered tree: %s', (name) => {
    expect(checkTree(aTree(anEnvironment(name)))).toEqual([])
  })

  it.each(PLANTS)('$check finds $fault', ({ check, plant, message }) => {
    const tree = aTree(anEnvironment('dev'))

    plant(tree)

    const findings = CHECKS[check]?.(tree) ?? []
    expect(findings.map((finding) => finding.message)).toContainEqual(expect.stringContaining(message))
    expect(findings.every(({ open }) => /^(charts-src|contracts|environments)\//.test(open))).toBe(true)
  })

  it('finds a cluster-wide object of a preview', () => {
    const tree = aTree(anEnvironment('pr-example'))
    add(tree, objectIn(aTree(anEnvironment('dev')), 'PriorityClass'))

    expect(CHECKS['namespaces']?.(tree)).toEqual([
      expect.objectContaining({
        message: "a preview may not render a PriorityClass: it is the whole cluster's",
      }),
    ])
  })

  it('has a planted fault for every check', () => {
    expect(new Set(PLANTS.map(({ check }) => check))).toEqual(new Set(Object.keys(CHECKS)))
  })

  it('names the file and the place of the mistake', () => {
    const tree = aTree(anEnvironment('dev'))
    pod(tree).containers[0].image = 'a:1'

    const [finding] = CHECKS['images']?.(tree) ?? []

    expect(finding && describeFinding('dev', finding)).toBe(
      'gitops/dev/sandboxes/agentweaver-sandboxes/SandboxTemplate.agentweaver-agent.yaml: image of agent-host is not pinned by digest alone: a:1; open environments/dev.json',
    )
  })

  it('counts the overhead of a preview, whose runtime class stands in another tree', () => {
    const environment = anEnvironment('pr-example')
    const sandboxes = { ...environment.sizes.sandboxes, overhead: { cpuMillis: 0, memoryMib: 4096 } }

    const tree = {
      ...aTree(environment),
      environment: { ...environment, sizes: { ...environment.sizes, sandboxes } },
    }

    expect(CHECKS['quotaCoversPools']?.(tree).map(({ path }) => path)).toContain(
      `foundation/${names(environment.slice).namespaces.sandboxes}/ResourceQuota.aw-pr-example-50d858-sandboxes.yaml`,
    )
  })
})
