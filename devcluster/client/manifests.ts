import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { waitUntil } from '../host/wait-until.ts'
import { KubeApiError, type KubeClient } from './kube-client.ts'
import type { KubeObject } from './kube-object.ts'

/** Some forty large definitions at once take minutes on a busy machine. */
const SERVED_MS = 300_000

/** All objects of one YAML file. */
export function readManifest(path: string): KubeObject[] {
  return parseAllDocuments(readFileSync(path, 'utf8'))
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object): object is KubeObject => Boolean(object?.kind))
}

/** All objects of the YAML files in a folder and below. */
export function readManifests(folder: string): KubeObject[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.yaml'))
    .sort()
    .flatMap((name) => readManifest(join(folder, name)))
}

/**
 * Applies custom resource definitions and waits until the API server serves them. The wait reads only the short lists
 * of kinds, because all definitions of a cluster are megabytes.
 */
export async function installCrds(client: KubeClient, objects: readonly KubeObject[]): Promise<void> {
  const crds = objects.filter(({ kind }) => kind === 'CustomResourceDefinition')
  await Promise.all(crds.map((crd) => client.apply(crd)))
  const missing = new Map(
    [...Map.groupBy(crds.flatMap(servedKinds), ({ list }) => list)].map(
      ([list, kinds]) => [list, kinds.map(({ plural }) => plural)] as const,
    ),
  )
  await waitUntil({ what: 'kinds to be served', timeoutMs: SERVED_MS }, async () => {
    for (const [list, plurals] of missing) {
      const served = await kindsOf(client, list)
      if (plurals.every((plural) => served.includes(plural))) missing.delete(list)
    }
    if (missing.size > 0) throw new Error(`not yet: ${JSON.stringify([...missing])}`)
    return true
  })
}

function servedKinds({ spec }: KubeObject): { list: string; plural: string }[] {
  const versions = spec.versions as readonly { readonly name: string; readonly served: boolean }[]
  return versions
    .filter(({ served }) => served)
    .map(({ name }) => ({ list: `/apis/${spec.group}/${name}`, plural: String(spec.names.plural) }))
}

async function kindsOf(client: KubeClient, list: string): Promise<readonly string[]> {
  try {
    const { resources } = JSON.parse(await client.raw({ method: 'GET', url: list })) as {
      resources: readonly { readonly name: string }[]
    }
    return resources.map(({ name }) => name)
  } catch (error) {
    if (error instanceof KubeApiError && error.status === 404) return []
    throw error
  }
}

export interface Condition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason?: string
  readonly message?: string
  readonly lastTransitionTime?: string
  readonly observedGeneration?: number
}

/** One of an object's status conditions. */
export function conditionOf(object: KubeObject, type: string): Condition | undefined {
  const conditions = object['status']?.conditions as readonly Condition[] | undefined
  return conditions?.find((condition) => condition.type === type)
}
