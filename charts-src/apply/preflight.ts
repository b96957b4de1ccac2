import type { Finding, Placed } from '../checks/checked-tree.ts'
import { customResourceFaults, isCustom } from '../checks/custom-resources.ts'
import { listAt } from '../checks/read-fields.ts'
import type { KubeObject } from '../kube-object.ts'
import type { Kubectl } from './kubectl.ts'

/** Reports kinds and fields that the CRDs of the cluster do not accept. Runs before anything is applied. */
export async function preflight(kubectl: Kubectl, objects: readonly Placed[]): Promise<Finding[]> {
  const [crds, versions] = await Promise.all([readCrds(kubectl), readVersions(kubectl)])
  const unserved = objects
    .filter(({ object }) => !isCustom(object) && !versions.includes(object.apiVersion))
    .map(({ path, object }) => ({
      path,
      message: `the cluster does not serve ${object.kind} in ${object.apiVersion}`,
      open: 'docs/gitops.md',
    }))
  return [...unserved, ...customResourceFaults(objects, crds)]
}

async function readCrds(kubectl: Kubectl): Promise<KubeObject[]> {
  const answer: unknown = JSON.parse(await kubectl('get', 'customresourcedefinitions', '--output=json'))
  return listAt(answer, 'items') as KubeObject[]
}

async function readVersions(kubectl: Kubectl): Promise<string[]> {
  return (await kubectl('api-versions')).split('\n').map((line) => line.trim())
}
