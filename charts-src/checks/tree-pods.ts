import { CLAIM } from '../../contracts/claim.ts'
import type { Placed } from './checked-tree.ts'
import { fieldAt, listAt, recordAt, textAt } from './read-fields.ts'

/** Pods that an object of the tree creates. */
export interface TreePod extends Placed {
  readonly namespace: string
  readonly labels: Readonly<Record<string, unknown>>
  readonly spec: unknown
}

export interface TreeContainer {
  readonly name: string
  readonly value: unknown
}

/** The path of the pod template in each kind. Kinds that are not listed create no pods. */
const POD_PATHS: Readonly<Record<string, readonly string[]>> = {
  Deployment: ['spec', 'template'],
  Job: ['spec', 'template'],
  [`${CLAIM.group}/SandboxTemplate`]: ['spec', 'podTemplate'],
}

export function podsOf(objects: readonly Placed[]): TreePod[] {
  return objects.flatMap((placed) => {
    const { apiVersion, kind, metadata } = placed.object
    const path = POD_PATHS[kind] ?? POD_PATHS[`${apiVersion.split('/')[0]}/${kind}`]
    if (path === undefined || metadata.namespace === undefined) return []
    return [
      {
        ...placed,
        namespace: metadata.namespace,
        labels: recordAt(placed.object, ...path, 'metadata', 'labels'),
        spec: fieldAt(placed.object, ...path, 'spec'),
      },
    ]
  })
}

export function containersOf(spec: unknown): TreeContainer[] {
  return ['containers', 'initContainers', 'ephemeralContainers']
    .flatMap((field) => listAt(spec, field))
    .map((value) => ({ name: textAt(value, 'name') ?? '?', value }))
}
