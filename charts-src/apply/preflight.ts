import type { Finding, Placed } from '../checks/checked-tree.ts'
import { customResourceFaults } from '../checks/custom-resources.ts'
import { listAt, textAt } from '../checks/read-fields.ts'
import type { KubeObject } from '../kube-object.ts'
import type { Kubectl } from './kubectl.ts'

/** What the cluster would not take, found by reading its definitions: nothing has been applied when this is told. */
export async function preflight(kubectl: Kubectl, objects: readonly Placed[]): Promise<Finding[]> {
  const [crds, versions] = await Promise.all([readCrds(kubectl), readVersions(kubectl)])
  const served = new Set(versions)
  const definedGroups = new Set(crds.map((crd) => textAt(crd, 'spec', 'group')))
  const builtIn = objects.filter(({ object }) => !definedGroups.has(object.apiVersion.split('/')[0] ?? ''))
  const unserved = builtIn
    .filter(({ object }) => !served.has(object.apiVersion))
    .map(({ path, object }) => ({
      path,
      message: `the cluster does not serve ${object.kind} in ${object.apiVersion}`,
      open: 'docs/gitops.md',
    }))
  const told = new Set(unserved.map(({ path }) => path))
  const custom = customResourceFaults(objects, crds).filter(({ path }) => !told.has(path))
  return [...unserved, ...custom]
}

async function readCrds(kubectl: Kubectl): Promise<KubeObject[]> {
  const answer: unknown = JSON.parse(await kubectl('get', 'customresourcedefinitions', '--output=json'))
  return listAt(answer, 'items') as KubeObject[]
}

async function readVersions(kubectl: Kubectl): Promise<string[]> {
  return (await kubectl('api-versions')).split('\n').map((line) => line.trim())
}
