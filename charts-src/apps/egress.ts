import type { Chart } from 'cdk8s'
import { ServiceAccount } from 'cdk8s-plus-28'
import { EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { EGRESS_PROXY_ROUTES } from '../../contracts/routes.ts'
import { EgressProxyDeployment } from '../constructs/egress-proxy-deployment.ts'
import { WorkloadMonitor } from '../constructs/workload-monitor.ts'
import type { Environment } from '../environment/schema.ts'
import {
  IntOrString,
  KubeHorizontalPodAutoscalerV2,
  KubePodDisruptionBudget,
  KubeService,
} from '../imports/k8s.js'
import { workloads } from '../workloads.ts'

/** The egress proxy in mode `proxy`. In other modes, the app is empty. */
export function addEgress(chart: Chart, environment: Environment): void {
  const { slice, infra, sizes } = environment
  const { egressProxy: size } = sizes
  if (size === undefined) return
  const { egressProxy } = workloads(slice)
  const { name, namespace, labels } = egressProxy
  new ServiceAccount(chart, 'ServiceAccount', { metadata: { name, namespace }, automountToken: false })
  new EgressProxyDeployment(chart, 'Deployment', { environment, size })
  addService(chart, environment)
  new KubePodDisruptionBudget(chart, 'DisruptionBudget', {
    metadata: { name, namespace },
    spec: {
      maxUnavailable: IntOrString.fromNumber(1),
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: labels },
    },
  })
  if (size.maxReplicas > size.replicas) addAutoscaler(chart, { name, namespace }, size)
  const { collector } = infra.monitoring
  if (collector !== 'none')
    new WorkloadMonitor(chart, 'Monitor', {
      workload: egressProxy,
      collector,
      path: EGRESS_PROXY_ROUTES.metrics,
    })
}

/** A fixed cluster address, because sandboxes cannot resolve names. */
function addService(chart: Chart, { slice, egress: { proxyAddress } }: Environment): void {
  if (proxyAddress === undefined) return
  const { name, namespace, labels } = workloads(slice).egressProxy
  const targetPort = IntOrString.fromNumber(EGRESS_PROXY_PORT)
  new KubeService(chart, 'Service', {
    metadata: { name, namespace },
    spec: {
      type: 'ClusterIP',
      // Only the replica that has forwarded a push of a branch lets the sandbox continue the branch.
      sessionAffinity: 'ClientIP',
      clusterIp: proxyAddress,
      ipFamilyPolicy: 'SingleStack',
      ipFamilies: [proxyAddress.includes(':') ? 'IPv6' : 'IPv4'],
      selector: labels,
      ports: [{ name: 'proxy', port: EGRESS_PROXY_PORT, targetPort, protocol: 'TCP' }],
    },
  })
}

/** CPU alone: the product installs no adapter that serves other metrics, such as open connections, to an autoscaler. */
function addAutoscaler(
  chart: Chart,
  metadata: { readonly name: string; readonly namespace: string },
  { replicas, maxReplicas, cpuTargetPercent }: NonNullable<Environment['sizes']['egressProxy']>,
): void {
  const target = { type: 'Utilization', averageUtilization: cpuTargetPercent }
  new KubeHorizontalPodAutoscalerV2(chart, 'Autoscaler', {
    metadata,
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: metadata.name },
      minReplicas: replicas,
      maxReplicas,
      metrics: [{ type: 'Resource', resource: { name: 'cpu', target } }],
    },
  })
}
