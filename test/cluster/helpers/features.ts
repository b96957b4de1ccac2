import { describe, inject } from 'vitest'
import { CLAIM } from '../../../contracts/claim.ts'
import { RUNTIME_CLASSES } from '../../../contracts/labels.ts'
import type { KubeClient } from '../../../devcluster/client/kube-client.ts'

/** A cluster feature that a suite can require. */
export type Feature =
  | 'agent-sandbox'
  | 'real node'
  | 'gvisor'
  | 'cilium'
  | 'kwok'
  | 'volumes'
  | 'cluster DNS'
  | 'audit log'

export interface ClusterUnderTest {
  readonly kubeconfig: string
  /** Empty on a cluster that we did not start. */
  readonly folder: string
  readonly auditLog: string
  /** Folders of the cluster's programs, the folder of kubectl first. Empty on a cluster that we did not start. */
  readonly binFolders: readonly string[]
  readonly features: readonly Feature[]
}

declare module 'vitest' {
  export interface ProvidedContext {
    cluster: ClusterUnderTest
  }
}

const CILIUM_NODES = 'ciliumnodes.cilium.io'

/** Detects the features from the cluster itself, so that the same code works on our cluster and on any other. */
export async function detectFeatures(client: KubeClient): Promise<Feature[]> {
  const names = async (apiVersion: string, plural: string, selector = '') =>
    (await client.list({ apiVersion, plural }, selector)).items.map(({ metadata }) => metadata.name)
  const crds = await names('apiextensions.k8s.io/v1', 'customresourcedefinitions')
  const found: Record<Exclude<Feature, 'audit log'>, boolean> = {
    'agent-sandbox': crds.includes(`${CLAIM.plural}.${CLAIM.group}`),
    'real node': (await names('v1', 'nodes', 'type!=kwok')).length > 0,
    gvisor: (await names('node.k8s.io/v1', 'runtimeclasses')).includes(RUNTIME_CLASSES.gvisor.name),
    // Every agent writes down its node; definitions alone enforce nothing.
    cilium: crds.includes(CILIUM_NODES) && (await names('cilium.io/v2', 'ciliumnodes')).length > 0,
    kwok: (await names('v1', 'nodes', 'type=kwok')).length > 0,
    volumes: (await names('storage.k8s.io/v1', 'storageclasses')).length > 0,
    'cluster DNS': (await names('v1', 'services', 'k8s-app=kube-dns')).length > 0,
  }
  return Object.entries(found).flatMap(([feature, there]) => (there ? [feature as Feature] : []))
}

export function hasFeature(feature: Feature): boolean {
  return inject('cluster').features.includes(feature)
}

/** A suite that is skipped, by name and with the reason, on a cluster that lacks something. */
export function describeWith(features: readonly Feature[], title: string, body: () => void): void {
  const lacking = features.filter((feature) => !hasFeature(feature))
  const suffix = lacking.length > 0 ? ` (skipped: no ${lacking.join(', no ')})` : ''
  // The reporter names skipped files alone.
  if (lacking.length > 0) process.stderr.write(`${title}${suffix}\n`)
  describe.skipIf(lacking.length > 0)(title + suffix, body)
}
