import { posix } from 'node:path'
import type { Placed } from '../checks/checked-tree.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { addArgoEntry } from './argo-entry.ts'
import { chartObjects } from './chart-objects.ts'
import { addFluxEntry } from './flux-entry.ts'
import type { RenderedApp } from './render.ts'
import { yamlText } from './yaml-text.ts'

/** File contents by path below `gitops/<environment>`. */
export type TreeFiles = ReadonlyMap<string, string>

/**
 * The whole tree of an environment: one object per file, plus the entries for kustomize, Argo CD and Flux.
 */
export function treeFiles(environment: Environment, apps: readonly RenderedApp[]): TreeFiles {
  const filled = apps.filter(({ objects }) => objects.length > 0)
  const entries = [
    ['kustomization.yaml', kustomization(filled.map(({ name }) => name))] as const,
    ...filled.flatMap(appFiles),
    ...chartObjects((chart) => addArgoEntry(chart, environment, filled)).map((object) =>
      entryFile('argocd', object),
    ),
    ...chartObjects((chart) => addFluxEntry(chart, environment, filled)).map((object) =>
      entryFile('flux', object),
    ),
  ]
  return new Map(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}

function appFiles({ name, objects }: RenderedApp): (readonly [string, string])[] {
  const files = objects.map((object) => [objectPath(object), yamlText(object)] as const)
  const paths = files.map(([path]) => path)
  return [
    [posix.join(name, 'kustomization.yaml'), kustomization(paths)],
    ...files.map(([path, text]) => [posix.join(name, path), text] as const),
  ]
}

/** Every object with its path below the tree's folder. */
export function placedObjects(apps: readonly RenderedApp[]): Placed[] {
  return apps.flatMap(({ name, objects }) =>
    objects.map((object) => ({ path: posix.join(name, objectPath(object)), object })),
  )
}

/** Path of an object below its app. */
function objectPath({ kind, metadata }: KubeObject): string {
  return posix.join(metadata.namespace ?? '_cluster', `${kind}.${metadata.name}.yaml`)
}

function entryFile(folder: string, object: KubeObject): readonly [string, string] {
  return [posix.join(folder, `${object.kind}.${object.metadata.name}.yaml`), yamlText(object)]
}

/**
 * Keeps the given order, which is the order of application. Kustomize's own order would apply policies after
 * pods.
 */
function kustomization(resources: readonly string[]): string {
  return yamlText({
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    sortOptions: { order: 'fifo' },
    resources,
  })
}
