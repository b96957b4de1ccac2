import { CLAIM } from '../../contracts/claim.ts'
import type { KubeObject } from './kube-object.ts'

/** The API groups of agent-sandbox, with the one version that the controller serves. */
export const CORE_API = `agents.x-k8s.io/${CLAIM.version}`
export const EXTENSIONS_API = `${CLAIM.group}/${CLAIM.version}`

type Fields = Readonly<Record<string, unknown>>
interface Space {
  /** The namespace. */
  readonly name: string
}

export interface TemplateParts {
  readonly podSpec: Fields
  readonly podMetadata?: Fields
  readonly spec?: Fields
}

export function templateWith(space: Space, name: string, parts: TemplateParts): KubeObject {
  const { podSpec, podMetadata, spec = {} } = parts
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
  space: Space,
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
