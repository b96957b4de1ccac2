import type { Chart } from 'cdk8s'
import { Service, ServiceAccount } from 'cdk8s-plus-28'
import { CLAIM } from '../../contracts/claim.ts'
import { names } from '../../contracts/names.ts'
import { API_PORT, EGRESS_CONTROL_PORT } from '../../contracts/ports.ts'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import { ApiDeployment } from '../constructs/api-deployment.ts'
import { BoundRole, type Rule } from '../constructs/bound-role.ts'
import { DatabaseSetup } from '../constructs/database-setup.ts'
import { HttpsGateway, HttpsRedirect, ServiceRoute } from '../constructs/gateway.ts'
import { Monitoring } from '../constructs/monitoring.ts'
import { PolicyFiles } from '../constructs/policy-files.ts'
import { ServiceScaling } from '../constructs/service-scaling.ts'
import type { Environment } from '../environment/schema.ts'
import { IntOrString, KubeService } from '../imports/k8s.js'
import { apiHosts, workloads } from '../workloads.ts'

/** Every Kubernetes permission of the API, in the sandbox namespace only. */
export const API_RULES: readonly Rule[] = [
  {
    apiGroup: CLAIM.group,
    resources: [CLAIM.plural],
    verbs: ['create', 'delete', 'get', 'list', 'patch', 'watch'],
  },
  // Read-only: the API verifies the identity of a sandbox pod before it sends anything to it.
  { apiGroup: CLAIM.group.replace(/^extensions\./, ''), resources: ['sandboxes'], verbs: ['list', 'watch'] },
  { apiGroup: '', resources: ['pods'], verbs: ['get'] },
]

/** The API with its database-setup Job, network entry, permissions and monitoring. */
export function addApi(chart: Chart, environment: Environment, egress: EgressPolicy): void {
  const { slice } = environment
  const { name, namespace } = workloads(slice).api
  new ServiceAccount(chart, 'ServiceAccount', { metadata: { name, namespace }, automountToken: false })
  new BoundRole(chart, 'Role', {
    name,
    namespace: names(slice).namespaces.sandboxes,
    rules: API_RULES,
    account: { name, namespace },
  })
  new DatabaseSetup(chart, 'DatabaseSetup', { environment })
  const policy = new PolicyFiles(chart, 'Policy', { environment, egress })
  new ApiDeployment(chart, 'Deployment', { environment, policy })
  new ServiceScaling(chart, 'Scaling', { workload: workloads(slice).api, size: environment.sizes.api })
  addPublicRoutes(chart, environment)
  addEgressControl(chart, environment)
  new Monitoring(chart, 'Monitoring', { environment })
}

function addPublicRoutes(chart: Chart, { slice, infra }: Environment): void {
  const { api, apiGateway } = workloads(slice)
  const { name, namespace, labels } = api
  const service = new Service(chart, 'Service', {
    metadata: { name, namespace },
    ports: [{ name: 'http', port: API_PORT, targetPort: API_PORT }],
  })
  for (const [label, value] of Object.entries(labels)) service.selectLabel(label, value)
  const hostname = apiHosts(slice, infra.dns).public
  new HttpsGateway(chart, 'Gateway', { ...apiGateway, settings: infra.gateway, hostname })
  new ServiceRoute(chart, 'Route', {
    name,
    namespace,
    gateway: apiGateway.name,
    hostname,
    pathPrefixes: ['/api', '/openapi.json'],
    backend: { name, port: API_PORT },
  })
  new HttpsRedirect(chart, 'Redirect', { name: `${name}-redirect`, namespace, gateway: apiGateway.name })
}

/**
 * The Service for replicas of the egress proxy. It includes replicas of the API that are not ready: a sandbox must not
 * lose the network because the API has lost its database for a moment.
 */
function addEgressControl(chart: Chart, { slice, egress }: Environment): void {
  if (egress.mode !== 'proxy') return
  const { api, egressControl } = workloads(slice)
  const targetPort = IntOrString.fromNumber(EGRESS_CONTROL_PORT)
  new KubeService(chart, 'EgressControl', {
    metadata: egressControl,
    spec: {
      type: 'ClusterIP',
      publishNotReadyAddresses: true,
      selector: api.labels,
      ports: [{ name: 'control', port: EGRESS_CONTROL_PORT, targetPort, protocol: 'TCP' }],
    },
  })
}
