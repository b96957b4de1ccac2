import { Construct } from 'constructs'
import { alerts } from '../../contracts/alerts.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { Environment, PoolSize } from '../environment/schema.ts'
import { KubeConfigMap } from '../imports/k8s.js'
import {
  PrometheusRule,
  type PrometheusRuleSpecGroupsRules,
  PrometheusRuleSpecGroupsRulesExpr,
} from '../imports/prometheus-operator.js'
import { dashboard } from '../monitoring/dashboard.ts'
import { workloads } from '../workloads.ts'
import { WorkloadMonitor } from './workload-monitor.ts'

export interface MonitoringProps {
  readonly environment: Environment
}

/**
 * PodMonitor, alert rules and dashboard of the API, in the API group of the environment's metrics collector.
 */
export class Monitoring extends Construct {
  constructor(scope: Construct, id: string, { environment }: MonitoringProps) {
    super(scope, id)
    const { slice, infra } = environment
    const { collector } = infra.monitoring
    if (collector === 'none') return
    const { api } = workloads(slice)
    const { name, namespace } = api
    new WorkloadMonitor(this, 'Monitor', { workload: api, collector, path: API_ROUTES.metrics })
    // On Azure the infrastructure creates the alert rules as Azure resources. Previews send no alerts.
    if (collector === 'operator' && slice.kind === 'base') {
      new PrometheusRule(this, 'Rules', {
        metadata: { name, namespace },
        spec: { groups: [{ name, rules: alertRules(environment) }] },
      })
    }
    new KubeConfigMap(this, 'Dashboard', {
      // Grafana's sidecar finds dashboards by this label.
      metadata: { name: `${name}-dashboard`, namespace, labels: { grafana_dashboard: '1' } },
      data: { 'agentweaver.json': `${JSON.stringify(dashboard(slice), null, 2)}\n` },
    })
  }
}

function alertRules({ sizes, egress }: Environment): PrometheusRuleSpecGroupsRules[] {
  const isWarm = ({ warm }: PoolSize) => warm.owner === 'autoscaler' || warm.replicas > 0
  const warm = SandboxKind.options.filter((kind) => isWarm(sizes.sandboxes[kind]))
  return alerts({ warm, hasEgressProxy: egress.mode === 'proxy' }).map(
    ({ alert, expr, forMinutes, severity, annotations }) => ({
      alert,
      expr: PrometheusRuleSpecGroupsRulesExpr.fromString(expr),
      for: `${forMinutes}m`,
      labels: { severity },
      annotations,
    }),
  )
}
