import { CLAIM } from '../../contracts/claim.ts'
import { parseQuantity } from '../../contracts/quantity.ts'
import type { Check, CheckedTree, Finding } from './checked-tree.ts'
import { environmentFile } from './checked-tree.ts'
import { fieldAt, recordAt, textAt } from './read-fields.ts'
import { containersOf, podsOf, type TreePod } from './tree-pods.ts'

const RESOURCES = [
  'requests.cpu',
  'limits.cpu',
  'requests.memory',
  'limits.memory',
  'requests.ephemeral-storage',
  'limits.ephemeral-storage',
] as const

/**
 * The quota must cover the warm pools plus one sandbox per permitted claim, including the RuntimeClass
 * overhead. Then the API server rejects the claim, with a clear message, and never the pod of an accepted
 * claim.
 */
export const quotaCoversPools: Check = (tree) => {
  const quotas = tree.objects.filter(({ object }) => object.kind === 'ResourceQuota')
  return quotas.flatMap(({ path, object }): Finding[] => {
    const pools = poolsIn(tree, object.metadata.namespace)
    if (pools.length === 0) return []
    const hard = recordAt(object, 'spec', 'hard')
    const claims = parseQuantity(hard[`count/${CLAIM.plural}.${CLAIM.group}`]) ?? 0
    const short = RESOURCES.flatMap((resource) => {
      const warm = pools.reduce((sum, { pod, warm }) => sum + warm * needOf(tree, pod, resource), 0)
      const need = warm + claims * Math.max(...pools.map(({ pod }) => needOf(tree, pod, resource)))
      const has = parseQuantity(hard[resource])
      return has !== undefined && has >= need
        ? []
        : [`${resource} is ${hard[resource] ?? 'not set'}, below ${need}`]
    })
    const pods = claims + pools.reduce((sum, { warm }) => sum + warm, 0)
    const hasPods = parseQuantity(hard['pods']) ?? 0
    const faults = [...short, ...(hasPods < pods ? [`pods is ${hasPods}, below ${pods}`] : [])]
    return faults.map((fault) => ({
      path,
      message: `${fault}, which the warm pools and ${claims} claims need`,
      open: `${environmentFile(tree)} (sizes.sandboxes.quota)`,
    }))
  })
}

interface Pool {
  readonly pod: TreePod
  readonly warm: number
}

function poolsIn(tree: CheckedTree, namespace: string | undefined): Pool[] {
  const templates = podsOf(tree.objects).filter(({ object }) => object.kind === 'SandboxTemplate')
  return tree.objects
    .filter(({ object }) => object.kind === 'SandboxWarmPool' && object.metadata.namespace === namespace)
    .flatMap(({ object }) => {
      const name = textAt(object, 'spec', 'sandboxTemplateRef', 'name')
      const pod = templates.find((template) => template.object.metadata.name === name)
      const replicas = fieldAt(object, 'spec', 'replicas')
      return pod
        ? [{ pod, warm: typeof replicas === 'number' ? replicas : autoscaledMax(tree, object.metadata.name) }]
        : []
    })
}

/** A pool without replicas is scaled by an autoscaler; the environment sets its maximum. */
function autoscaledMax({ environment }: CheckedTree, pool: string): number {
  const size = environment.sizes.sandboxes[pool.endsWith('-agent') ? 'agent' : 'command']
  return size.warm.owner === 'autoscaler' ? size.warm.max : size.warm.replicas
}

function needOf(tree: CheckedTree, { spec }: TreePod, resource: (typeof RESOURCES)[number]): number {
  const [side = '', name = ''] = resource.split(/\.(.*)/)
  const own = containersOf(spec).reduce(
    (sum, { value }) =>
      sum + (parseQuantity(recordAt(value, 'resources', side)[name]) ?? Number.POSITIVE_INFINITY),
    0,
  )
  return own + overheadOf(tree, textAt(spec, 'runtimeClassName'), name)
}

function overheadOf(
  { objects, environment }: CheckedTree,
  runtimeClass: string | undefined,
  name: string,
): number {
  const found = objects.find(
    ({ object }) => object.kind === 'RuntimeClass' && object.metadata.name === runtimeClass,
  )
  if (found) return parseQuantity(recordAt(found.object, 'overhead', 'podFixed')[name]) ?? 0
  // A preview uses the RuntimeClass of the base slice.
  const { cpuMillis, memoryMib } = environment.sizes.sandboxes.overhead
  if (runtimeClass === undefined) return 0
  return name === 'cpu' ? cpuMillis / 1000 : name === 'memory' ? memoryMib * 1_048_576 : 0
}
