import type { Chart } from 'cdk8s'
import { CLAIM } from '../../contracts/claim.ts'
import { KATA_NODE_LABEL, KATA_TAINT, namespaceLabels, RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { names } from '../../contracts/names.ts'
import { addObject } from '../constructs/plain-object.ts'
import { containerResources, mib, millis } from '../constructs/quantities.ts'
import { ephemeralLimits } from '../environment/pod-needs.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { clusterNames } from '../workloads.ts'

/**
 * Namespaces, quotas and classes that the other apps need. Only the base slice renders cluster-scoped
 * objects. The infrastructure creates the namespaces of a preview with the same labels.
 */
export function addFoundation(chart: Chart, environment: Environment): void {
  const isBase = environment.slice.kind === 'base'
  const objects = [
    ...(isBase ? clusterObjects(environment) : []),
    ...sandboxLimits(environment),
    ...controlPlaneLimits(environment),
    ...egressLimits(environment),
  ]
  for (const object of objects) addObject(chart, object)
}

function clusterObjects(environment: Environment): KubeObject[] {
  const { controlPlane, sandboxes, egress } = names(environment.slice).namespaces
  return [
    ...[controlPlane, sandboxes, egress].map((name) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels: namespaceLabels(names(environment.slice).prefix) },
    })),
    ...priorityClasses(),
    ...runtimeClasses(environment),
    ...storageClasses(environment),
  ]
}

/** A sandbox never preempts another pod; the control plane may preempt sandboxes. */
function priorityClasses(): KubeObject[] {
  const { controlPlane, sandbox } = clusterNames().priorityClasses
  const priorityClass = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass' }
  return [
    {
      ...priorityClass,
      metadata: { name: controlPlane },
      value: 100_000,
      preemptionPolicy: 'PreemptLowerPriority',
      description: 'The API executor and the egress proxy',
    },
    {
      ...priorityClass,
      metadata: { name: sandbox },
      value: 1000,
      preemptionPolicy: 'Never',
      description: 'Sandboxes of runs, warm or bound',
    },
  ]
}

/**
 * Our own RuntimeClass, with an overhead that fits our sandboxes. The class that the cluster brings reserves
 * far more.
 */
function runtimeClasses({ isolation, sizes }: Environment): KubeObject[] {
  if (isolation === 'none') return []
  const { name, handler } = RUNTIME_CLASSES[isolation]
  const { cpuMillis, memoryMib } = sizes.sandboxes.overhead
  const podFixed = {
    ...(cpuMillis > 0 && { cpu: millis(cpuMillis) }),
    ...(memoryMib > 0 && { memory: mib(memoryMib) }),
  }
  const { key, value } = KATA_NODE_LABEL
  const tolerations = [{ ...KATA_TAINT, operator: 'Equal' }]
  return [
    {
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name },
      handler,
      ...(Object.keys(podFixed).length > 0 && { overhead: { podFixed } }),
      ...(isolation === 'kata' && { scheduling: { nodeSelector: { [key]: value }, tolerations } }),
    },
  ]
}

function storageClasses({ infra, sizes }: Environment): KubeObject[] {
  if (!infra.storage || sizes.sandboxes.workspace !== 'volume') return []
  const { provisioner, parameters } = infra.storage
  return [
    {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name: clusterNames().workspaceStorage },
      provisioner,
      parameters,
      // The volume is deleted with its sandbox and created in the zone where the sandbox runs.
      reclaimPolicy: 'Delete',
      volumeBindingMode: 'WaitForFirstConsumer',
      allowVolumeExpansion: false,
    },
  ]
}

type Quota = Environment['sizes']['controlPlane']['quota']

function computeQuota({ pods, cpuMillis, maxCpuMillis, memoryMib, ephemeralMib }: Quota) {
  return {
    pods: String(pods),
    'requests.cpu': millis(cpuMillis),
    'limits.cpu': millis(maxCpuMillis),
    'requests.memory': mib(memoryMib),
    'limits.memory': mib(memoryMib),
    'requests.ephemeral-storage': mib(ephemeralMib),
    'limits.ephemeral-storage': mib(ephemeralMib),
  }
}

function quota(name: string, namespace: string, hard: Readonly<Record<string, string>>): KubeObject {
  return { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name, namespace }, spec: { hard } }
}

function limitRange(name: string, namespace: string, limits: readonly object[]): KubeObject {
  return { apiVersion: 'v1', kind: 'LimitRange', metadata: { name, namespace }, spec: { limits } }
}

function sandboxLimits({ slice, sizes }: Environment): KubeObject[] {
  const { prefix, namespaces } = names(slice)
  const { quota: size, workspace, agent, command } = sizes.sandboxes
  const containers = [agent, command].flatMap((pool) => {
    const storage = ephemeralLimits(pool, workspace)
    return [
      { ...pool.agentHost, ephemeralMib: storage.agentHost },
      { ...pool.toolbox, ephemeralMib: storage.toolbox },
    ]
  })
  const largest = containerResources({
    cpuMillis: 0,
    maxCpuMillis: Math.max(...containers.map(({ maxCpuMillis }) => maxCpuMillis)),
    memoryMib: Math.max(...containers.map(({ memoryMib }) => memoryMib)),
    ephemeralMib: Math.max(...containers.map(({ ephemeralMib }) => ephemeralMib)),
  }).limits
  return [
    quota(`${prefix}-sandboxes`, namespaces.sandboxes, {
      ...computeQuota(size),
      [`count/${CLAIM.plural}.${CLAIM.group}`]: String(size.claims),
      persistentvolumeclaims: workspace === 'volume' ? String(size.pods) : '0',
      'services.loadbalancers': '0',
      'services.nodeports': '0',
    }),
    limitRange(`${prefix}-sandboxes`, namespaces.sandboxes, [{ type: 'Container', max: largest }]),
  ]
}

/**
 * The defaults are for Gateway pods: their implementation may set no requests, and the quota rejects pods
 * without them.
 */
function controlPlaneLimits({ slice, sizes }: Environment): KubeObject[] {
  const { prefix, namespaces } = names(slice)
  const defaults = containerResources({
    cpuMillis: 100,
    maxCpuMillis: 1000,
    memoryMib: 256,
    ephemeralMib: 256,
  })
  return [
    quota(prefix, namespaces.controlPlane, computeQuota(sizes.controlPlane.quota)),
    limitRange(prefix, namespaces.controlPlane, [
      { type: 'Container', default: defaults.limits, defaultRequest: defaults.requests },
    ]),
  ]
}

/** Without a proxy no pod runs in this namespace. */
function egressLimits({ slice, egress }: Environment): KubeObject[] {
  if (egress.mode === 'proxy') return []
  const { egress: namespace } = names(slice).namespaces
  return [quota(namespace, namespace, { pods: '0' })]
}
