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
  /** One volume of each sandbox by the name that the pod mounts it under. @default none */
  readonly volume?: {
    readonly name: string
    readonly storageClassName: string
    readonly size: string
  }
}

/**
 * What the controller makes sandboxes from. The network is ours: the controller's managed policy would open the
 * internet and take cluster DNS away.
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
  /** Left out when an autoscaler owns the number: the tree would set it back at each sync. @default the autoscaler's */
  readonly replicas?: number
}

/** Sandboxes that wait for a claim. Those made from an older template stay until they are taken. */
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
