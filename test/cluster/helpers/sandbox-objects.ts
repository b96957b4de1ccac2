import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import {
  EXTENSIONS_API,
  type TemplateParts,
  templateWith,
} from '../../../devcluster/client/sandbox-objects.ts'
import type { TestNamespace } from './namespace.ts'
import { quickPodSpec } from './pods.ts'

export const LABEL = {
  claimUid: 'agents.x-k8s.io/claim-uid',
  launchType: 'agents.x-k8s.io/launch-type',
  pool: 'agents.x-k8s.io/warm-pool-sandbox',
  templateRef: 'agents.x-k8s.io/sandbox-template-ref-hash',
  nameHash: 'agents.x-k8s.io/sandbox-name-hash',
} as const

/** The controller records in this annotation which Sandbox it chose. A claim that sets it makes the choice itself. */
export const PICK_ANNOTATION = 'agents.x-k8s.io/sandbox-name'

type Fields = Readonly<Record<string, unknown>>

/** A template of the quickest pod that the cluster has, unless the test needs another pod. */
export function aTemplate(
  space: Pick<TestNamespace, 'name'>,
  name: string,
  parts: Partial<TemplateParts> = {},
): KubeObject {
  return templateWith(space, name, { ...parts, podSpec: parts.podSpec ?? quickPodSpec() })
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

/** A time some seconds from now, in the format of Kubernetes. */
export function inSeconds(seconds: number): string {
  return new Date(Date.now() + seconds * 1000).toISOString().replace(/\.\d+Z$/, 'Z')
}
