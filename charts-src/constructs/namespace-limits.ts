import { Construct } from 'constructs'
import { KubeLimitRange, KubeResourceQuota, type LimitRangeItem, type Quantity } from '../imports/k8s.js'

export interface NamespaceLimitsProps {
  /** Name of both objects. */
  readonly name: string
  readonly namespace: string
  readonly quota: Readonly<Record<string, Quantity>>
  /** Limits and defaults of each container. @default no LimitRange */
  readonly container?: Omit<LimitRangeItem, 'type'>
}

/** The quota of a namespace, and the limits of its containers. */
export class NamespaceLimits extends Construct {
  constructor(scope: Construct, id: string, { name, namespace, quota, container }: NamespaceLimitsProps) {
    super(scope, id)
    const metadata = { name, namespace }
    new KubeResourceQuota(this, 'Quota', { metadata, spec: { hard: quota } })
    if (container === undefined) return
    new KubeLimitRange(this, 'Limits', { metadata, spec: { limits: [{ type: 'Container', ...container }] } })
  }
}
