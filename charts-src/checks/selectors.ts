import { workloads } from '../workloads.ts'
import type { Check, CheckedTree, Finding, Placed } from './checked-tree.ts'
import { isEmptySelector, selects } from './label-selector.ts'
import { fieldAt, recordAt } from './read-fields.ts'
import { podsOf } from './tree-pods.ts'

/** The name, namespace and labels of a workload's pods. */
interface Workload {
  readonly name: string
  readonly namespace: string
  readonly labels: Readonly<Record<string, unknown>>
}

/**
 * Kinds that must select exactly one workload. A second match would receive the Service's traffic or share
 * the disruption budget.
 */
const OF_ONE: Readonly<Record<string, (object: unknown) => unknown>> = {
  Service: (object) => ({ matchLabels: recordAt(object, 'spec', 'selector') }),
  PodDisruptionBudget: (object) => fieldAt(object, 'spec', 'selector'),
  Deployment: (object) => fieldAt(object, 'spec', 'selector'),
  PodMonitor: (object) => fieldAt(object, 'spec', 'selector'),
}
const OF_SOME: Readonly<Record<string, (object: unknown) => unknown>> = {
  NetworkPolicy: (object) => fieldAt(object, 'spec', 'podSelector'),
  CiliumNetworkPolicy: (object) => fieldAt(object, 'spec', 'endpointSelector'),
}

/**
 * Every selector must match a workload, and only the intended ones. A policy that selects no pod protects
 * nothing.
 */
export const selectors: Check = (tree) => {
  const all = workloadsOf(tree)
  return tree.objects.flatMap((placed) => [...ofOne(placed, all), ...ofSome(placed, all)])
}

function ofOne({ path, object }: Placed, all: readonly Workload[]): Finding[] {
  const read = OF_ONE[object.kind]
  if (!read) return []
  const found = matched(read(object), object.metadata.namespace, all)
  const open = 'charts-src/workloads.ts'
  if (found.length === 0)
    return [{ path, message: `the selector of this ${object.kind} matches no pod`, open }]
  if (found.length === 1) return []
  return [{ path, message: `the selector of this ${object.kind} matches ${found.join(' and ')}`, open }]
}

function ofSome({ path, object }: Placed, all: readonly Workload[]): Finding[] {
  const read = OF_SOME[object.kind]
  // An empty selector matches every current and future pod of the namespace.
  if (!read || isEmptySelector(read(object))) return []
  if (matched(read(object), object.metadata.namespace, all).length > 0) return []
  return [{ path, message: `this ${object.kind} selects no pod`, open: 'charts-src/network/' }]
}

function matched(selector: unknown, namespace: string | undefined, all: readonly Workload[]): string[] {
  if (isEmptySelector(selector))
    return all.filter((pod) => pod.namespace === namespace).map(({ name }) => name)
  return all
    .filter((pod) => pod.namespace === namespace && selects(selector, pod.labels))
    .map(({ name }) => name)
}

/** Pods of the tree, plus the pods of Gateways, which other programs create. */
function workloadsOf({ environment, objects }: CheckedTree): Workload[] {
  const { apiGateway, previewGateway } = workloads(environment.slice)
  const gateways = objects
    .filter(({ object }) => object.kind === 'Gateway')
    .map(({ object }) => object.metadata.name)
  return [
    ...podsOf(objects).map(({ object, namespace, labels }) => ({
      name: `${object.kind} ${object.metadata.name}`,
      namespace,
      labels,
    })),
    ...[apiGateway, previewGateway].filter(({ name }) => gateways.includes(name)),
  ]
}
