import type { KubeObject } from '../kube-object.ts'
import type { Finding, Placed } from './checked-tree.ts'
import { fieldAt, listAt, recordAt, textAt } from './read-fields.ts'
import { schemaFaults } from './structural-schema.ts'

/** API groups that every API server serves without CRDs. */
const BUILT_IN = [
  '',
  'admissionregistration.k8s.io',
  'apps',
  'autoscaling',
  'batch',
  'networking.k8s.io',
  'node.k8s.io',
  'policy',
  'rbac.authorization.k8s.io',
  'scheduling.k8s.io',
  'storage.k8s.io',
]

/**
 * Validates custom resources against CRDs. Reports every missing group, kind or version and every field that
 * the schema does not know. Only the API server evaluates the CEL rules of a CRD.
 */
export function customResourceFaults(objects: readonly Placed[], crds: readonly KubeObject[]): Finding[] {
  return objects.flatMap(({ path, object }) => {
    if (!isCustom(object)) return []
    return faultsOf(object, crds).map((message) => ({ path, message, open: 'charts-src/constructs/' }))
  })
}

export function isCustom({ apiVersion }: KubeObject): boolean {
  return !BUILT_IN.includes(groupOf(apiVersion))
}

const groupOf = (apiVersion: string) => (apiVersion.includes('/') ? (apiVersion.split('/')[0] ?? '') : '')

function faultsOf(object: KubeObject, crds: readonly KubeObject[]): string[] {
  const group = groupOf(object.apiVersion)
  const crd = crds.find(
    (candidate) =>
      textAt(candidate, 'spec', 'group') === group &&
      textAt(candidate, 'spec', 'names', 'kind') === object.kind,
  )
  if (!crd) return [`the cluster has no kind ${object.kind} in ${group}: install its definition first`]
  const versions = listAt(crd, 'spec', 'versions').filter((version) => fieldAt(version, 'served') === true)
  const wanted = object.apiVersion.split('/')[1]
  const version = versions.find((candidate) => textAt(candidate, 'name') === wanted)
  if (!version) {
    const there = versions.map((candidate) => textAt(candidate, 'name')).join(', ')
    return [`the cluster serves ${crd.metadata.name} in ${there || 'no version'}, not in ${wanted}`]
  }
  return [
    ...scopeFaults(object, crd),
    ...schemaFaults(recordAt(version, 'schema', 'openAPIV3Schema'), object),
  ]
}

function scopeFaults({ kind, metadata }: KubeObject, crd: KubeObject): string[] {
  const isNamespaced = textAt(crd, 'spec', 'scope') === 'Namespaced'
  if (isNamespaced === (metadata.namespace !== undefined)) return []
  return [isNamespaced ? `${kind} needs a namespace` : `${kind} has no namespace in this cluster`]
}
