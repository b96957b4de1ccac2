import type { Construct } from 'constructs'
import { alerts } from '../../contracts/alerts.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { AZURE_POD_MONITOR, SCRAPE_INTERVAL } from '../../contracts/pod-monitor.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { Environment, PoolSize } from '../environment/schema.ts'
import { dashboard } from '../monitoring/dashboard.ts'
import { workloads } from '../workloads.ts'
import { addObject } from './plain-object.ts'

const OPERATOR = 'monitoring.coreos.com/v1'

/**
 * PodMonitor, alert rules and dashboard of the API, in the API group of the environment's metrics collector.
 */
export function addMonitoring(scope: Construct, { slice, infra, sizes }: Environment): void {
  const { collector } = infra.monitoring
  if (collector === 'none') return
  const isAzure = collector === 'azure'
  const { name, namespace, labels } = workloads(slice).api
  addObject(scope, {
    apiVersion: isAzure ? AZURE_POD_MONITOR.apiVersion : OPERATOR,
    kind: 'PodMonitor',
    metadata: { name, namespace },
    spec: {
      selector: { matchLabels: labels },
      podMetricsEndpoints: [{ port: 'metrics', path: API_ROUTES.metrics, interval: SCRAPE_INTERVAL }],
      ...(isAzure && AZURE_POD_MONITOR.limits),
    },
  })
  // On Azure the infrastructure creates the alert rules as Azure resources. Previews send no alerts.
  if (!isAzure && slice.kind === 'base') {
    addObject(scope, {
      apiVersion: OPERATOR,
      kind: 'PrometheusRule',
      metadata: { name, namespace },
      spec: { groups: [{ name, rules: alertRules(sizes.sandboxes) }] },
    })
  }
  addObject(scope, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    // Grafana's sidecar finds dashboards by this label.
    metadata: { name: `${name}-dashboard`, namespace, labels: { grafana_dashboard: '1' } },
    data: { 'agentweaver.json': `${JSON.stringify(dashboard(slice), null, 2)}\n` },
  })
}

function alertRules(pools: Readonly<Record<SandboxKind, PoolSize>>) {
  const isWarm = ({ warm }: PoolSize) => warm.owner === 'autoscaler' || warm.replicas > 0
  return alerts(SandboxKind.options.filter((kind) => isWarm(pools[kind]))).map(
    ({ alert, expr, forMinutes, severity, annotations }) => ({
      alert,
      expr,
      for: `${forMinutes}m`,
      labels: { severity },
      annotations,
    }),
  )
}
