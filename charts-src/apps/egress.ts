import type { Chart } from 'cdk8s'
import { ServiceAccount } from 'cdk8s-plus-28'
import { EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { EGRESS_PROXY_ROUTES } from '../../contracts/routes.ts'
import { EgressProxyDeployment } from '../constructs/egress-proxy-deployment.ts'
import { ServiceScaling } from '../constructs/service-scaling.ts'
import { WorkloadMonitor } from '../constructs/workload-monitor.ts'
import type { Environment } from '../environment/schema.ts'
import { IntOrString, KubeService } from '../imports/k8s.js'
import { workloads } from '../workloads.ts'

/** The egress proxy in mode `proxy`. In other modes, the app is empty. */
export function addEgress(chart: Chart, environment: Environment): void {
  const { slice, infra, sizes } = environment
  const { egressProxy: size } = sizes
  if (size === undefined) return
  const { egressProxy } = workloads(slice)
  const { name, namespace } = egressProxy
  new ServiceAccount(chart, 'ServiceAccount', { metadata: { name, namespace }, automountToken: false })
  new EgressProxyDeployment(chart, 'Deployment', { environment, size })
  addService(chart, environment)
  new ServiceScaling(chart, 'Scaling', { workload: egressProxy, size })
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
