import { ApiObject } from 'cdk8s'
import type { Construct } from 'constructs'
import { CLAIM } from '../../contracts/claim.ts'

const API_VERSION = `${CLAIM.group}/${CLAIM.version}`

interface Named {
  readonly name: string
  readonly namespace: string
}

export interface SandboxTemplateProps extends Named {
  readonly podLabels: Readonly<Record<string, string>>
  readonly podSpec: Readonly<Record<string, unknown>>
  /** A volume that each sandbox gets, under the name by which the pod mounts it. @default none */
  readonly volume?: {
    readonly name: string
    readonly storageClassName: string
    readonly size: string
  }
}

/**
 * The template of a warm pool's sandboxes. `Unmanaged`, because the network policy that the controller would
 * create opens the internet and blocks cluster DNS.
 */
export class SandboxTemplate extends ApiObject {
  constructor(scope: Construct, id: string, props: SandboxTemplateProps) {
    const { name, namespace, podLabels, podSpec, volume } = props
    super(scope, id, {
      apiVersion: API_VERSION,
      kind: 'SandboxTemplate',
      metadata: { name, namespace },
      spec: {
        networkPolicyManagement: 'Unmanaged',
        envVarsInjectionPolicy: 'Disallowed',
        volumeClaimTemplatesPolicy: 'Disallowed',
        podTemplate: { metadata: { labels: podLabels }, spec: podSpec },
        ...(volume && {
          volumeClaimTemplates: [
            {
              metadata: { name: volume.name },
              spec: {
                accessModes: ['ReadWriteOncePod'],
                storageClassName: volume.storageClassName,
                resources: { requests: { storage: volume.size } },
              },
            },
          ],
        }),
      },
    })
  }
}

export interface SandboxWarmPoolProps extends Named {
  readonly template: string
  /**
   * Omitted when an autoscaler sets the number, because each sync would reset it. @default set by the
   * autoscaler
   */
  readonly replicas?: number
}

/**
 * A warm pool: sandboxes without a claim. After a template change, sandboxes of the old template stay until they are
 * claimed.
 */
export class SandboxWarmPool extends ApiObject {
  constructor(scope: Construct, id: string, { name, namespace, template, replicas }: SandboxWarmPoolProps) {
    super(scope, id, {
      apiVersion: API_VERSION,
      kind: 'SandboxWarmPool',
      metadata: { name, namespace },
      spec: {
        ...(replicas !== undefined && { replicas }),
        sandboxTemplateRef: { name: template },
        updateStrategy: { type: 'OnReplenish' },
      },
    })
  }
}
