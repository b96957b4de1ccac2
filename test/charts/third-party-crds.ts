import { ensureTools } from '../kube/build/ensure-tools.ts'
import type { ModuleName } from '../kube/build/modules.ts'
import type { KubeObject } from '../kube/client/kube-object.ts'
import { readManifests } from '../kube/client/manifests.ts'

type Source = readonly [ModuleName, string]

const THIRD_PARTY: readonly Source[] = [
  ['crds', 'gateway-api'],
  ['crds', 'prometheus-operator'],
  ['crds', 'argo-cd'],
  ['crds', 'flux-kustomize'],
  ['crds', 'flux-source'],
]
const SERVED: readonly Source[] = [
  ['crds', 'agent-sandbox'],
  ['crds', 'cilium'],
]

/** Definitions of those kinds of the tree that our clusters do not serve by themselves. */
export const thirdPartyCrds = (): Promise<KubeObject[]> => readCrds(THIRD_PARTY)

/** Definitions of every custom kind of the tree. */
export const allCrds = (): Promise<KubeObject[]> => readCrds([...THIRD_PARTY, ...SERVED])

async function readCrds(sources: readonly Source[]): Promise<KubeObject[]> {
  const tools = await ensureTools(['crds'], () => {})
  return sources
    .flatMap(([module, folder]) => readManifests(tools.share(module, folder)))
    .filter(({ kind }) => kind === 'CustomResourceDefinition')
}
