import { Construct } from 'constructs'
import { IntOrString, KubeHorizontalPodAutoscalerV2, KubePodDisruptionBudget } from '../imports/k8s.js'
import type { ServiceDeploymentProps } from './service-deployment.ts'

export interface ServiceScalingProps extends Pick<ServiceDeploymentProps, 'workload'> {
  readonly size: ServiceDeploymentProps['size'] & { readonly cpuTargetPercent: number }
}

/**
 * How many replicas of a service run. The autoscaler looks at the processor time alone. Memory does not shrink in these
 * servers, and the product installs no adapter that serves other metrics, such as open connections.
 */
export class ServiceScaling extends Construct {
  constructor(scope: Construct, id: string, { workload, size }: ServiceScalingProps) {
    super(scope, id)
    const { name, namespace, labels } = workload
    new KubePodDisruptionBudget(this, 'DisruptionBudget', {
      metadata: { name, namespace },
      spec: {
        // With one replica, `minAvailable: 1` would block every node upgrade.
        maxUnavailable: IntOrString.fromNumber(1),
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
        selector: { matchLabels: labels },
      },
    })
    const { replicas, maxReplicas, cpuTargetPercent } = size
    if (maxReplicas <= replicas) return
    const target = { type: 'Utilization', averageUtilization: cpuTargetPercent }
    new KubeHorizontalPodAutoscalerV2(this, 'Autoscaler', {
      metadata: { name, namespace },
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
        minReplicas: replicas,
        maxReplicas,
        metrics: [{ type: 'Resource', resource: { name: 'cpu', target } }],
      },
    })
  }
}
