import type { Construct } from 'constructs'
import { names } from '../../contracts/names.ts'
import type { Environment } from '../environment/schema.ts'
import { Application, AppProject } from '../imports/argo-cd.js'
import type { KubeObject } from '../kube-object.ts'
import type { RenderedApp } from './render.ts'

const NAMESPACE = 'argocd'
const IN_CLUSTER = 'https://kubernetes.default.svc'

/**
 * The Argo CD entry: one Application, ordered by the sync waves of the objects, in a project that may write
 * only this tree's kinds and namespaces.
 */
export function addArgoEntry(
  scope: Construct,
  { gitops, slice, name: environmentName }: Environment,
  apps: readonly RenderedApp[],
): void {
  const { prefix } = names(slice)
  const name = slice.kind === 'base' ? `${prefix}-${environmentName}` : prefix
  const objects = apps.flatMap((app) => app.objects)
  const isInNamespace = ({ metadata }: KubeObject) => metadata.namespace !== undefined
  const metadata = { name, namespace: NAMESPACE }
  new AppProject(scope, 'Project', {
    metadata,
    spec: {
      sourceRepos: [gitops.repository],
      destinations: namespacesOf(objects).map((namespace) => ({ namespace, server: IN_CLUSTER })),
      clusterResourceWhitelist: kindsOf(objects.filter((object) => !isInNamespace(object))),
      namespaceResourceWhitelist: kindsOf(objects.filter(isInNamespace)),
    },
  })
  new Application(scope, 'Application', {
    metadata,
    spec: {
      project: name,
      source: {
        repoUrl: gitops.repository,
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
  })
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
