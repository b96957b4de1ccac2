import type { Chart } from 'cdk8s'
import { names } from '../../contracts/names.ts'
import { HttpsGateway, HttpsRedirect } from '../constructs/gateway.ts'
import type { Environment } from '../environment/schema.ts'
import { workloads } from '../workloads.ts'

/**
 * The Gateway for sandbox ports, each under one label of the preview zone. The API opens no previews yet, so
 * no identity has permission to create a route to a sandbox.
 */
export function addPreview(chart: Chart, { slice, infra }: Environment): void {
  const { previewGateway } = workloads(slice)
  const { sandboxes } = names(slice).namespaces
  const { name, namespace } = previewGateway
  new HttpsGateway(chart, 'Gateway', {
    name,
    namespace,
    settings: infra.gateway,
    hostname: `*.${infra.dns.previewZone}`,
    routesFrom: sandboxes,
  })
  new HttpsRedirect(chart, 'Redirect', { name: `${name}-redirect`, namespace, gateway: name })
}
