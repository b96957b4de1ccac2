import { names } from '../../contracts/names.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import type { RenderedApp } from './render.ts'

const NAMESPACE = 'argocd'
const API_VERSION = 'argoproj.io/v1alpha1'
const IN_CLUSTER = 'https://kubernetes.default.svc'

/**
 * The Argo CD entry: one Application, ordered by the sync waves of the objects, in a project that may write
 * only this tree's kinds and namespaces.
 */
export function argoObjects(environment: Environment, apps: readonly RenderedApp[]): KubeObject[] {
  const { gitops, slice, name: environmentName } = environment
  const { prefix } = names(slice)
  const name = slice.kind === 'base' ? `${prefix}-${environmentName}` : prefix
  const objects = apps.flatMap((app) => app.objects)
  return [
    {
      apiVersion: API_VERSION,
      kind: 'AppProject',
      metadata: { name, namespace: NAMESPACE },
      spec: {
        sourceRepos: [gitops.repository],
        destinations: namespacesOf(objects).map((namespace) => ({ namespace, server: IN_CLUSTER })),
        clusterResourceWhitelist: kindsOf(objects.filter(({ metadata }) => metadata.namespace === undefined)),
        namespaceResourceWhitelist: kindsOf(
          objects.filter(({ metadata }) => metadata.namespace !== undefined),
        ),
      },
    },
    {
      apiVersion: API_VERSION,
      kind: 'Application',
      metadata: { name, namespace: NAMESPACE },
      spec: {
        project: name,
        source: {
          repoURL: gitops.repository,
          targetRevision: gitops.revision,
          path: `gitops/${environmentName}`,
        },
        destination: { server: IN_CLUSTER, namespace: names(slice).namespaces.controlPlane },
        syncPolicy: {
          automated: { prune: true, selfHeal: true },
          // Server-side apply: large CRDs exceed the annotation of a client-side apply, and fields of other
          // owners stay unchanged.
          syncOptions: ['ServerSideApply=true', 'PruneLast=true', 'RespectIgnoreDifferences=true'],
        },
      },
    },
  ]
}

function namespacesOf(objects: readonly KubeObject[]): string[] {
  const found = objects.flatMap(({ kind, metadata }) =>
    kind === 'Namespace' ? [metadata.name] : metadata.namespace === undefined ? [] : [metadata.namespace],
  )
  return [...new Set(found)].sort()
}

function kindsOf(objects: readonly KubeObject[]): { group: string; kind: string }[] {
  const found = new Set(
    objects.map(
      ({ apiVersion, kind }) => `${apiVersion.includes('/') ? apiVersion.split('/')[0] : ''}/${kind}`,
    ),
  )
  return [...found].sort().map((entry) => {
    const [group = '', kind = ''] = entry.split('/')
    return { group, kind }
  })
}
