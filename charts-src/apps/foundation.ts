import type { Chart } from 'cdk8s'
import { CLAIM } from '../../contracts/claim.ts'
import { KATA_NODE_LABEL, KATA_TAINT, namespaceLabels, RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { names } from '../../contracts/names.ts'
import { NamespaceLimits } from '../constructs/namespace-limits.ts'
import { containerResources, count, mib, millis } from '../constructs/quantities.ts'
import { ephemeralLimits } from '../environment/pod-needs.ts'
import type { ContainerSize, Environment } from '../environment/schema.ts'
import {
  KubeNamespace,
  KubePriorityClass,
  KubeRuntimeClass,
  KubeStorageClass,
  type Quantity,
} from '../imports/k8s.js'
import { clusterNames } from '../workloads.ts'

/**
 * Namespaces, quotas and classes that the other apps need. Only the base slice renders cluster-scoped
 * objects. The infrastructure creates the namespaces of a preview with the same labels.
 */
export function addFoundation(chart: Chart, environment: Environment): void {
  if (environment.slice.kind === 'base') {
    addNamespaces(chart, environment)
    addPriorityClasses(chart)
    addRuntimeClass(chart, environment)
    addStorageClass(chart, environment)
  }
  addSandboxLimits(chart, environment)
  addControlPlaneLimits(chart, environment)
  addEgressLimits(chart, environment)
}

function addNamespaces(chart: Chart, { slice }: Environment): void {
  const { controlPlane, sandboxes, egress } = names(slice).namespaces
  const labels = namespaceLabels(names(slice).prefix)
  for (const name of [controlPlane, sandboxes, egress]) {
    new KubeNamespace(chart, `Namespace ${name}`, { metadata: { name, labels } })
  }
}

/** A sandbox never preempts another pod; the control plane may preempt sandboxes. */
function addPriorityClasses(chart: Chart): void {
  const { controlPlane, sandbox } = clusterNames().priorityClasses
  new KubePriorityClass(chart, 'ControlPlanePriority', {
    metadata: { name: controlPlane },
    value: 100_000,
    preemptionPolicy: 'PreemptLowerPriority',
    description: 'The API executor and the egress proxy',
  })
  new KubePriorityClass(chart, 'SandboxPriority', {
    metadata: { name: sandbox },
    value: 1000,
    preemptionPolicy: 'Never',
    description: 'Sandboxes of runs, warm or bound',
  })
}

/**
 * Our own RuntimeClass, with an overhead that fits our sandboxes. The class that the cluster brings reserves
 * far more.
 */
function addRuntimeClass(chart: Chart, { isolation, sizes }: Environment): void {
  if (isolation === 'none') return
  const { name, handler } = RUNTIME_CLASSES[isolation]
  const { cpuMillis, memoryMib } = sizes.sandboxes.overhead
  const podFixed: Record<string, Quantity> = {
    ...(cpuMillis > 0 && { cpu: millis(cpuMillis) }),
    ...(memoryMib > 0 && { memory: mib(memoryMib) }),
  }
  const { key, value } = KATA_NODE_LABEL
  new KubeRuntimeClass(chart, 'RuntimeClass', {
    metadata: { name },
    handler,
    overhead: Object.keys(podFixed).length > 0 ? { podFixed } : undefined,
    scheduling:
      isolation === 'kata'
        ? { nodeSelector: { [key]: value }, tolerations: [{ ...KATA_TAINT, operator: 'Equal' }] }
        : undefined,
  })
}

function addStorageClass(chart: Chart, { infra, sizes }: Environment): void {
  if (!infra.storage || sizes.sandboxes.workspace !== 'volume') return
  const { provisioner, parameters } = infra.storage
  new KubeStorageClass(chart, 'WorkspaceStorage', {
    metadata: { name: clusterNames().workspaceStorage },
    provisioner,
    parameters,
    // The volume is deleted with its sandbox and created in the zone where the sandbox runs.
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'WaitForFirstConsumer',
    allowVolumeExpansion: false,
  })
}

type Quota = Environment['sizes']['controlPlane']['quota']

function computeQuota({ pods, cpuMillis, maxCpuMillis, memoryMib, ephemeralMib }: Quota) {
  return {
    pods: count(pods),
    'requests.cpu': millis(cpuMillis),
    'limits.cpu': millis(maxCpuMillis),
    'requests.memory': mib(memoryMib),
    'limits.memory': mib(memoryMib),
    'requests.ephemeral-storage': mib(ephemeralMib),
    'limits.ephemeral-storage': mib(ephemeralMib),
  }
}

function addSandboxLimits(chart: Chart, { slice, sizes }: Environment): void {
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
  new NamespaceLimits(chart, 'SandboxLimits', {
    name: `${prefix}-sandboxes`,
    namespace: namespaces.sandboxes,
    quota: {
      ...computeQuota(size),
      [`count/${CLAIM.plural}.${CLAIM.group}`]: count(size.claims),
      persistentvolumeclaims: count(workspace === 'volume' ? size.pods : 0),
      'services.loadbalancers': count(0),
      'services.nodeports': count(0),
    },
    container: { max: largest },
  })
}

/**
 * The defaults are for Gateway pods: their implementation may set no requests, and the quota rejects pods
 * without them.
 */
function addControlPlaneLimits(chart: Chart, { slice, sizes }: Environment): void {
  const { prefix, namespaces } = names(slice)
  const defaults = containerResources({
    cpuMillis: 100,
    maxCpuMillis: 1000,
    memoryMib: 256,
    ephemeralMib: 256,
  })
  new NamespaceLimits(chart, 'ControlPlaneLimits', {
    name: prefix,
    namespace: namespaces.controlPlane,
    quota: computeQuota(sizes.controlPlane.quota),
    container: { default: defaults.limits, defaultRequest: defaults.requests },
  })
}

/** Room for the replicas of the egress proxy, and for one more during a rollout. Without a proxy no pod runs here. */
function addEgressLimits(chart: Chart, { slice, sizes: { egressProxy } }: Environment): void {
  const { egress: namespace } = names(slice).namespaces
  const pods = egressProxy ? egressProxy.maxReplicas + 1 : 0
  const containers = egressProxy ? [egressProxy.container, egressProxy.credentials ?? []].flat() : []
  const all = (key: keyof ContainerSize) => pods * containers.reduce((sum, size) => sum + size[key], 0)
  const quota = egressProxy
    ? computeQuota({
        pods,
        cpuMillis: all('cpuMillis'),
        maxCpuMillis: all('maxCpuMillis'),
        memoryMib: all('memoryMib'),
        ephemeralMib: all('ephemeralMib'),
      })
    : { pods: count(pods) }
  new NamespaceLimits(chart, 'EgressLimits', { name: namespace, namespace, quota })
}
