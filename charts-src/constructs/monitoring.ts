import type { Construct } from 'constructs'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { Environment } from '../environment/schema.ts'
import { alertRules } from '../monitoring/alert-rules.ts'
import { dashboard } from '../monitoring/dashboard.ts'
import { workloads } from '../workloads.ts'
import { addObject } from './plain-object.ts'

/** Scraping, alerts and a dashboard of the API, as the Prometheus operator reads them. */
export function addMonitoring(scope: Construct, { slice, infra }: Environment): void {
  if (!infra.monitoring.operator) return
  const { name, namespace, labels } = workloads(slice).api
  const apiVersion = 'monitoring.coreos.com/v1'
  addObject(scope, {
    apiVersion,
    kind: 'PodMonitor',
    metadata: { name, namespace },
    spec: {
      selector: { matchLabels: labels },
      podMetricsEndpoints: [{ port: 'metrics', path: API_ROUTES.metrics, interval: '30s' }],
    },
  })
  addObject(scope, {
    apiVersion,
    kind: 'PrometheusRule',
    metadata: { name, namespace },
    spec: { groups: [{ name, rules: alertRules(slice) }] },
  })
  addObject(scope, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    // The label by which Grafana's sidecar finds dashboards.
    metadata: { name: `${name}-dashboard`, namespace, labels: { grafana_dashboard: '1' } },
    data: { 'agentweaver.json': `${JSON.stringify(dashboard(slice), null, 2)}\n` },
  })
}
