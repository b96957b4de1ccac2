import type { Placed } from '../checks/checked-tree.ts'
import { listAt } from '../checks/read-fields.ts'
import type { KubeObject } from '../kube-object.ts'
import { PART_OF_LABEL } from '../workloads.ts'
import type { Kubectl } from './kubectl.ts'

/**
 * Every kind that a tree may contain, with its kubectl resource name. A kind from a second API group has that
 * group in the name. Other kinds are never pruned.
 */
export const PRUNED_KINDS: Readonly<Record<string, string>> = {
  CiliumNetworkPolicy: 'ciliumnetworkpolicies.cilium.io',
  ConfigMap: 'configmaps',
  Deployment: 'deployments.apps',
  Gateway: 'gateways.gateway.networking.k8s.io',
  HTTPRoute: 'httproutes.gateway.networking.k8s.io',
  HorizontalPodAutoscaler: 'horizontalpodautoscalers.autoscaling',
  Job: 'jobs.batch',
  LimitRange: 'limitranges',
  NetworkPolicy: 'networkpolicies.networking.k8s.io',
  PodDisruptionBudget: 'poddisruptionbudgets.policy',
  PodMonitor: 'podmonitors.monitoring.coreos.com',
  'PodMonitor.azmonitoring.coreos.com': 'podmonitors.azmonitoring.coreos.com',
  PriorityClass: 'priorityclasses.scheduling.k8s.io',
  PrometheusRule: 'prometheusrules.monitoring.coreos.com',
  ResourceQuota: 'resourcequotas',
  Role: 'roles.rbac.authorization.k8s.io',
  RoleBinding: 'rolebindings.rbac.authorization.k8s.io',
  RuntimeClass: 'runtimeclasses.node.k8s.io',
  SandboxTemplate: 'sandboxtemplates.extensions.agents.x-k8s.io',
  SandboxWarmPool: 'sandboxwarmpools.extensions.agents.x-k8s.io',
  Service: 'services',
  ServiceAccount: 'serviceaccounts',
  StorageClass: 'storageclasses.storage.k8s.io',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies.admissionregistration.k8s.io',
  ValidatingAdmissionPolicyBinding: 'validatingadmissionpolicybindings.admissionregistration.k8s.io',
}
/** Annotations that forbid Flux and Argo CD to prune an object. */
const NEVER_PRUNED: Readonly<Record<string, string>> = {
  'kustomize.toolkit.fluxcd.io/prune': 'disabled',
  'argocd.argoproj.io/sync-options': 'Prune=false',
}
/** Never pruned: deleting a namespace deletes everything in it, including runs. */
const KEPT_KINDS: Readonly<Record<string, string>> = { Namespace: 'namespaces' }

const MANAGED = 'app.kubernetes.io/managed-by=gitops'

export interface Leftovers {
  readonly pruned: readonly KubeObject[]
  /**
   * Objects that left the tree but must be deleted by hand: namespaces, and objects with a never-prune
   * annotation.
   */
  readonly kept: readonly KubeObject[]
}

/** Finds objects in the cluster that carry this tree's labels and are not in the tree. */
export async function findLeftovers(kubectl: Kubectl, objects: readonly Placed[]): Promise<Leftovers> {
  const owner = ownerOf(objects)
  const served = new Set((await kubectl('api-resources', '--output=name')).split('\n'))
  const resources = Object.values({ ...PRUNED_KINDS, ...KEPT_KINDS }).filter((name) => served.has(name))
  const selector = `--selector=${MANAGED},${PART_OF_LABEL}=${owner}`
  const answer = await kubectl('get', resources.join(','), '--all-namespaces', selector, '--output=json')
  const wanted = new Set(objects.map(({ object }) => keyOf(object)))
  const left = (listAt(JSON.parse(answer), 'items') as KubeObject[]).filter(
    (object) => !wanted.has(keyOf(object)) && !isBeingDeleted(object),
  )
  return { pruned: left.filter(isPrunable), kept: left.filter((object) => !isPrunable(object)) }
}

function isPrunable({ kind, metadata }: KubeObject): boolean {
  const isMarked = Object.entries(NEVER_PRUNED).some(([key, value]) =>
    metadata.annotations?.[key]?.split(',').includes(value),
  )
  return kind in PRUNED_KINDS && !isMarked
}

/** Deletes one object that left the tree. An object that is already gone is not an error. */
export async function deleteLeftover(kubectl: Kubectl, { apiVersion, kind, metadata }: KubeObject) {
  const place = metadata.namespace === undefined ? [] : [`--namespace=${metadata.namespace}`]
  const resource = PRUNED_KINDS[`${kind}.${groupOf(apiVersion)}`] ?? PRUNED_KINDS[kind]
  const target = `${resource}/${metadata.name}`
  await kubectl('delete', target, ...place, '--ignore-not-found', '--wait=false')
}

/** Returns the slice label of the tree, which limits pruning to objects of that slice. */
function ownerOf(objects: readonly Placed[]): string {
  const owners = new Set(objects.map(({ object }) => object.metadata.labels?.[PART_OF_LABEL]))
  const [owner] = owners
  if (owners.size !== 1 || owner === undefined)
    throw new Error(`the tree must be of one slice by ${PART_OF_LABEL}`)
  return owner
}

const groupOf = (apiVersion: string) => (apiVersion.includes('/') ? apiVersion.split('/')[0] : '')

const keyOf = ({ apiVersion, kind, metadata }: KubeObject) =>
  [groupOf(apiVersion), kind, metadata.namespace ?? '', metadata.name].join('/')

const isBeingDeleted = ({ metadata }: KubeObject) => 'deletionTimestamp' in metadata
