import { Construct } from 'constructs'
import { alerts } from '../../contracts/alerts.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { AZURE_POD_MONITOR, SCRAPE_INTERVAL } from '../../contracts/pod-monitor.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { Environment, PoolSize } from '../environment/schema.ts'
import { PodMonitor as AzurePodMonitor } from '../imports/azure-monitor.js'
import { KubeConfigMap } from '../imports/k8s.js'
import {
  PodMonitor,
  type PodMonitorSpec,
  PrometheusRule,
  type PrometheusRuleSpecGroupsRules,
  PrometheusRuleSpecGroupsRulesExpr,
} from '../imports/prometheus-operator.js'
import { dashboard } from '../monitoring/dashboard.ts'
import { workloads } from '../workloads.ts'

export interface MonitoringProps {
  readonly environment: Environment
}

/**
 * PodMonitor, alert rules and dashboard of the API, in the API group of the environment's metrics collector.
 */
export class Monitoring extends Construct {
  constructor(scope: Construct, id: string, { environment }: MonitoringProps) {
    super(scope, id)
    const { slice, infra, sizes } = environment
    const { collector } = infra.monitoring
    if (collector === 'none') return
    const isAzure = collector === 'azure'
    const { name, namespace, labels } = workloads(slice).api
    const metadata = { name, namespace }
    const spec: PodMonitorSpec = {
      selector: { matchLabels: labels },
      podMetricsEndpoints: [{ port: 'metrics', path: API_ROUTES.metrics, interval: SCRAPE_INTERVAL }],
    }
    if (isAzure) {
      new AzurePodMonitor(this, 'PodMonitor', { metadata, spec: { ...spec, ...AZURE_POD_MONITOR.limits } })
    } else new PodMonitor(this, 'PodMonitor', { metadata, spec })
    // On Azure the infrastructure creates the alert rules as Azure resources. Previews send no alerts.
    if (!isAzure && slice.kind === 'base') {
      new PrometheusRule(this, 'Rules', {
        metadata,
        spec: { groups: [{ name, rules: alertRules(sizes.sandboxes) }] },
      })
    }
    new KubeConfigMap(this, 'Dashboard', {
      // Grafana's sidecar finds dashboards by this label.
      metadata: { name: `${name}-dashboard`, namespace, labels: { grafana_dashboard: '1' } },
      data: { 'agentweaver.json': `${JSON.stringify(dashboard(slice), null, 2)}\n` },
    })
  }
}

function alertRules(pools: Readonly<Record<SandboxKind, PoolSize>>): PrometheusRuleSpecGroupsRules[] {
  const isWarm = ({ warm }: PoolSize) => warm.owner === 'autoscaler' || warm.replicas > 0
  return alerts(SandboxKind.options.filter((kind) => isWarm(pools[kind]))).map(
    ({ alert, expr, forMinutes, severity, annotations }) => ({
      alert,
      expr: PrometheusRuleSpecGroupsRulesExpr.fromString(expr),
      for: `${forMinutes}m`,
      labels: { severity },
      annotations,
    }),
  )
}
