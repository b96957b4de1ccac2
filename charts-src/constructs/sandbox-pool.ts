import { Construct } from 'constructs'
import {
  SandboxTemplate,
  type SandboxTemplateSpecPodTemplateSpec,
  type SandboxTemplateSpecVolumeClaimTemplates,
  SandboxWarmPool,
} from '../imports/agent-sandbox.js'
import type { Quantity } from '../imports/k8s.js'

export type PodSpec = SandboxTemplateSpecPodTemplateSpec

export interface SandboxPoolProps {
  /** Name of the template and of its pool. */
  readonly name: string
  readonly namespace: string
  readonly podLabels: Readonly<Record<string, string>>
  readonly podSpec: PodSpec
  /** A volume that each sandbox gets, under the name by which the pod mounts it. @default none */
  readonly volume?: SandboxVolume | undefined
  /**
   * Sandboxes without a claim. Omitted when an autoscaler sets the number, because each sync would reset it.
   * @default set by the autoscaler
   */
  readonly replicas?: number | undefined
}

interface SandboxVolume {
  readonly name: string
  readonly storageClassName: string
  readonly size: Quantity
}

/**
 * A template and its warm pool. After a template change, sandboxes of the old template stay until they are claimed.
 */
export class SandboxPool extends Construct {
  constructor(scope: Construct, id: string, props: SandboxPoolProps) {
    super(scope, id)
    const { name, namespace, podLabels, podSpec, volume, replicas } = props
    const metadata = { name, namespace }
    new SandboxTemplate(this, 'Template', {
      metadata,
      spec: {
        // The network policy that the controller would create opens the internet and blocks cluster DNS.
        networkPolicyManagement: 'Unmanaged',
        envVarsInjectionPolicy: 'Disallowed',
        volumeClaimTemplatesPolicy: 'Disallowed',
        podTemplate: { metadata: { labels: podLabels }, spec: podSpec },
        volumeClaimTemplates: volume && [volumeClaim(volume)],
      },
    })
    new SandboxWarmPool(this, 'Pool', {
      metadata,
      spec: { replicas, sandboxTemplateRef: { name }, updateStrategy: { type: 'OnReplenish' } },
    })
  }
}

function volumeClaim(volume: SandboxVolume): SandboxTemplateSpecVolumeClaimTemplates {
  return {
    metadata: { name: volume.name },
    spec: {
      accessModes: ['ReadWriteOncePod'],
      storageClassName: volume.storageClassName,
      resources: { requests: { storage: volume.size } },
    },
  }
}
