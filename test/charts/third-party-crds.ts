import { ensureTools } from '../kube/build/ensure-tools.ts'
import type { ModuleName } from '../kube/build/modules.ts'
import type { KubeObject } from '../kube/client/kube-object.ts'
import { readManifests } from '../kube/client/manifests.ts'

const SOURCES: readonly (readonly [ModuleName, string])[] = [
  ['crds', 'gateway-api'],
  ['crds', 'prometheus-operator'],
  ['crds', 'argo-cd'],
  ['crds', 'flux-kustomize'],
  ['crds', 'flux-source'],
]

/** Definitions of those kinds of the tree that our clusters do not serve by themselves. */
export async function thirdPartyCrds(): Promise<KubeObject[]> {
  const tools = await ensureTools(['crds'], () => {})
  return SOURCES.flatMap(([module, folder]) => readManifests(tools.share(module, folder))).filter(
    ({ kind }) => kind === 'CustomResourceDefinition',
  )
}
