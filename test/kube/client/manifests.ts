import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { waitUntil } from '../host/wait-until.ts'
import type { KubeClient } from './kube-client.ts'
import type { KubeObject } from './kube-object.ts'

const ESTABLISHED_MS = 30_000

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

/** Applies custom resource definitions and waits until the API server serves them. */
export async function installCrds(client: KubeClient, objects: readonly KubeObject[]): Promise<void> {
  const crds = objects.filter(({ kind }) => kind === 'CustomResourceDefinition')
  await Promise.all(crds.map((crd) => client.apply(crd)))
  const names = crds.map(({ metadata }) => metadata.name)
  await waitUntil({ what: `the CRDs ${names.join(', ')}`, timeoutMs: ESTABLISHED_MS }, async () => {
    const { items } = await client.list({
      apiVersion: 'apiextensions.k8s.io/v1',
      plural: 'customresourcedefinitions',
    })
    const served = new Set(items.filter(isEstablished).map(({ metadata }) => metadata.name))
    return names.every((name) => served.has(name)) ? true : undefined
  })
}

function isEstablished(crd: KubeObject): boolean {
  return conditionOf(crd, 'Established')?.status === 'True'
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
