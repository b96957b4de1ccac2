import { CLUSTER_KEY } from './identity.ts'
import { createSelector, type Selector } from './selector.ts'

const reserved = (name: string): Selector =>
  createSelector([{ source: 'reserved', key: name, operator: 'Exists', values: [] }])

/** Every pod outside the host network. */
const MANAGED_PODS = createSelector([{ source: 'k8s', key: CLUSTER_KEY, operator: 'Exists', values: [] }])

/** The identities that each entity stands for, after Cilium's `EntitySelectorMapping`. */
const ENTITIES: Readonly<Record<string, readonly Selector[]>> = {
  all: [createSelector([])],
  world: [reserved('world')],
  cluster: [
    ...['host', 'remote-node', 'init', 'ingress', 'health', 'unmanaged', 'kube-apiserver'].map(reserved),
    MANAGED_PODS,
  ],
  host: [reserved('host')],
  'remote-node': [reserved('remote-node')],
  'kube-apiserver': [reserved('kube-apiserver')],
  health: [reserved('health')],
  ingress: [reserved('ingress')],
  init: [reserved('init')],
  unmanaged: [reserved('unmanaged')],
  none: [],
}

/** Entities of cluster meshes and dual-stack clusters, which this evaluator does not model. */
const NOT_MODELLED = ['cluster-mesh', 'world-ipv4', 'world-ipv6']

export function entitySelectors(entity: string): readonly Selector[] | 'unknown' | 'not modelled' {
  if (NOT_MODELLED.includes(entity)) return 'not modelled'
  return Object.hasOwn(ENTITIES, entity) ? (ENTITIES[entity] ?? 'unknown') : 'unknown'
}
