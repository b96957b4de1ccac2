import { names } from '../../contracts/names.ts'
import type { KubeObject } from '../kube-object.ts'
import type { Check, CheckedTree, Finding } from './checked-tree.ts'

/** Cluster-scoped kinds. Every other kind must name its namespace. */
const CLUSTER_KINDS = [
  'Namespace',
  'PriorityClass',
  'RuntimeClass',
  'StorageClass',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
]

/**
 * Every namespaced object must be in a namespace of this slice. Only the base slice may contain cluster-
 * scoped objects.
 */
export const namespaces: Check = (tree) =>
  tree.objects.flatMap(({ path, object }): Finding[] => {
    const finding = CLUSTER_KINDS.includes(object.kind) ? clusterFault(tree, object) : homeFault(tree, object)
    return finding ? [{ path, ...finding }] : []
  })

type Fault = Omit<Finding, 'path'> | undefined
const OPEN = 'charts-src/apps/'

function clusterFault({ environment }: CheckedTree, { kind, metadata }: KubeObject): Fault {
  if (metadata.namespace !== undefined) return { message: `a ${kind} has no namespace`, open: OPEN }
  if (environment.slice.kind === 'base') return undefined
  return { message: `a preview may not render a ${kind}: it is the whole cluster's`, open: OPEN }
}

function homeFault({ environment, objects }: CheckedTree, { kind, metadata }: KubeObject): Fault {
  const { namespace } = metadata
  if (namespace === undefined) return { message: `${kind} ${metadata.name} has no namespace`, open: OPEN }
  const { controlPlane, sandboxes, egress } = names(environment.slice).namespaces
  const ours: readonly string[] = [controlPlane, sandboxes, egress]
  if (!ours.includes(namespace)) {
    return { message: `namespace ${namespace} is not one of ${ours.join(', ')}`, open: OPEN }
  }
  const isMade = objects.some(
    ({ object }) => object.kind === 'Namespace' && object.metadata.name === namespace,
  )
  // The infrastructure creates the namespaces of a preview.
  if (isMade || environment.slice.kind === 'preview') return undefined
  return { message: `nothing makes the namespace ${namespace}`, open: 'charts-src/apps/foundation.ts' }
}
