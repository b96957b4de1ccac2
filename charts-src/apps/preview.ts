import type { Chart } from 'cdk8s'
import { names } from '../../contracts/names.ts'
import { Gateway, HttpsRedirect } from '../constructs/gateway.ts'
import { addRole } from '../constructs/role.ts'
import type { Environment } from '../environment/schema.ts'
import { workloads } from '../workloads.ts'

/**
 * Previews: ports of sandboxes, each under one label of the preview zone. The API makes a Service and a route for each
 * beside its sandbox; this is the Gateway they join, and the right to make them.
 */
export function addPreview(chart: Chart, { slice, infra }: Environment): void {
  const { api, previewGateway } = workloads(slice)
  const { sandboxes } = names(slice).namespaces
  const { name, namespace } = previewGateway
  new Gateway(chart, 'Gateway', {
    name,
    namespace,
    settings: infra.gateway,
    hostname: `*.${infra.dns.previewZone}`,
    routesFrom: sandboxes,
  })
  new HttpsRedirect(chart, 'Redirect', { name: `${name}-redirect`, namespace, gateway: name })
  addRole(chart, {
    name,
    namespace: sandboxes,
    account: { name: api.name, namespace: api.namespace },
    rules: [
      { apiGroup: '', resources: ['services'], verbs: ['create', 'delete', 'get', 'list'] },
      {
        apiGroup: 'gateway.networking.k8s.io',
        resources: ['httproutes'],
        verbs: ['create', 'delete', 'get', 'list'],
      },
    ],
  })
}
