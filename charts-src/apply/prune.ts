import type { Placed } from '../checks/checked-tree.ts'
import { listAt } from '../checks/read-fields.ts'
import type { KubeObject } from '../kube-object.ts'
import { PART_OF_LABEL } from '../workloads.ts'
import type { Kubectl } from './kubectl.ts'

/** Every kind that a tree of ours may hold, as kubectl names them; a second group of a kind by its name. What is not here is never pruned. */
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
/** By these an object says that no controller may prune it (Flux, Argo CD). */
const NEVER_PRUNED: Readonly<Record<string, string>> = {
  'kustomize.toolkit.fluxcd.io/prune': 'disabled',
  'argocd.argoproj.io/sync-options': 'Prune=false',
}
/** Never pruned: with a namespace everything in it would go, runs included. */
const KEPT_KINDS: Readonly<Record<string, string>> = { Namespace: 'namespaces' }

const MANAGED = 'app.kubernetes.io/managed-by=gitops'

export interface Leftovers {
  readonly pruned: readonly KubeObject[]
  /** What is no longer in the tree and is deleted by a person alone: namespaces, and what says so of itself. */
  readonly kept: readonly KubeObject[]
}

/** What carries this tree's labels in the cluster and is not in the tree. */
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

/** Deletes one object that left the tree; one that went by itself is as good. */
export async function deleteLeftover(kubectl: Kubectl, { apiVersion, kind, metadata }: KubeObject) {
  const place = metadata.namespace === undefined ? [] : [`--namespace=${metadata.namespace}`]
  const resource = PRUNED_KINDS[`${kind}.${groupOf(apiVersion)}`] ?? PRUNED_KINDS[kind]
  const target = `${resource}/${metadata.name}`
  await kubectl('delete', target, ...place, '--ignore-not-found', '--wait=false')
}

/** A tree is of one slice, which its labels name: another slice's objects are never touched. */
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
