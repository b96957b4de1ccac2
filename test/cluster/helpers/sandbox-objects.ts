import { CLAIM } from '../../../contracts/claim.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import type { TestNamespace } from './namespace.ts'
import { quickPodSpec } from './pods.ts'

/** The groups and the one version that the controller serves. */
export const CORE_API = `agents.x-k8s.io/${CLAIM.version}`
export const EXTENSIONS_API = `${CLAIM.group}/${CLAIM.version}`

export const LABEL = {
  claimUid: 'agents.x-k8s.io/claim-uid',
  launchType: 'agents.x-k8s.io/launch-type',
  pool: 'agents.x-k8s.io/warm-pool-sandbox',
  templateRef: 'agents.x-k8s.io/sandbox-template-ref-hash',
  nameHash: 'agents.x-k8s.io/sandbox-name-hash',
} as const

/** Annotation in which the controller records its choice of sandbox. A claim can also set it to choose a sandbox. */
export const PICK_ANNOTATION = 'agents.x-k8s.io/sandbox-name'

type Fields = Readonly<Record<string, unknown>>

export interface TemplateParts {
  /** Other than the usual fake pod. */
  readonly podSpec?: Fields
  readonly podMetadata?: Fields
  readonly spec?: Fields
}

export function aTemplate(
  space: Pick<TestNamespace, 'name'>,
  name: string,
  parts: TemplateParts = {},
): KubeObject {
  const { podSpec = quickPodSpec(), podMetadata, spec = {} } = parts
  return {
    apiVersion: EXTENSIONS_API,
    kind: 'SandboxTemplate',
    metadata: { name, namespace: space.name },
    spec: {
      networkPolicyManagement: 'Unmanaged',
      podTemplate: { spec: podSpec, ...(podMetadata ? { metadata: podMetadata } : {}) },
      ...spec,
    },
  }
}

export interface PoolParts {
  readonly template: string
  readonly replicas: number
  readonly updateStrategy?: 'Recreate' | 'OnReplenish'
}

export function aPool(
  space: Pick<TestNamespace, 'name'>,
  name: string,
  { template, replicas, updateStrategy }: PoolParts,
): KubeObject {
  return {
    apiVersion: EXTENSIONS_API,
    kind: 'SandboxWarmPool',
    metadata: { name, namespace: space.name },
    spec: {
      replicas,
      sandboxTemplateRef: { name: template },
      ...(updateStrategy ? { updateStrategy: { type: updateStrategy } } : {}),
    },
  }
}

export interface ClaimParts {
  readonly pool: string
  readonly spec?: Fields
  readonly annotations?: Readonly<Record<string, string>>
  readonly labels?: Readonly<Record<string, string>>
}

export function aClaim(space: TestNamespace, name: string, parts: ClaimParts): KubeObject {
  const { pool, spec = {}, annotations = {}, labels = {} } = parts
  return {
    apiVersion: EXTENSIONS_API,
    kind: 'SandboxClaim',
    metadata: { name, namespace: space.name, annotations, labels },
    spec: { warmPoolRef: { name: pool }, ...spec },
  }
}

/** An instant some seconds away, as Kubernetes spells it. */
export function inSeconds(seconds: number): string {
  return new Date(Date.now() + seconds * 1000).toISOString().replace(/\.\d+Z$/, 'Z')
}
