import { PrometheusRuleGroup } from '@pulumi/azure-native/alertsmanagement/prometheusRuleGroup.js'
import { DataCollectionEndpoint } from '@pulumi/azure-native/monitor/dataCollectionEndpoint.js'
import { DataCollectionRule } from '@pulumi/azure-native/monitor/dataCollectionRule.js'
import { DataCollectionRuleAssociation } from '@pulumi/azure-native/monitor/dataCollectionRuleAssociation.js'
import { DiagnosticSetting } from '@pulumi/azure-native/monitor/diagnosticSetting.js'
import { ComponentResource, type ComponentResourceOptions } from '@pulumi/pulumi'
import { type EgressMode, platformAlerts } from '../model/alerts.ts'
import type { Cluster } from './cluster.ts'
import type { Observability } from './observability.ts'
import type { Site } from './site.ts'

export interface ClusterMonitoringArgs {
  readonly site: Site
  readonly cluster: Cluster
  readonly clusterName: string
  readonly observability: Observability
  readonly egressMode: EgressMode
}

/**
 * Control plane logs that show which user did what. The audit log of reads is omitted, because it would be most of the
 * cost.
 */
const LOGS = [
  'kube-audit-admin',
  'guard',
  'cluster-autoscaler',
  'kube-controller-manager',
  'cloud-controller-manager',
]

/** Azure's scale: 0 critical to 4 verbose. */
const SEVERITY = { page: 1, ticket: 3 } as const

/**
 * Sends metrics and logs of the cluster to the observability resources. Without the association nothing is collected.
 */
export class ClusterMonitoring extends ComponentResource {
  constructor(name: string, args: ClusterMonitoringArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:ClusterMonitoring', name, {}, options)
    const { site, cluster, observability, egressMode } = args
    const association = this.#collection(name, args)
    new DiagnosticSetting(
      `${name}-logs`,
      {
        name: 'control-plane',
        resourceUri: cluster.resource.id,
        workspaceId: observability.logsId,
        logAnalyticsDestinationType: 'Dedicated',
        logs: LOGS.map((category) => ({ category, enabled: true })),
      },
      { parent: this },
    )
    new PrometheusRuleGroup(
      `${name}-alerts`,
      {
        resourceGroupName: site.resourceGroupName,
        location: site.location,
        tags: site.tags,
        ruleGroupName: `${name}-alerts`,
        description: 'What a person should hear of',
        enabled: true,
        interval: 'PT1M',
        // Rules match the label `cluster` by exactly this name.
        clusterName: args.clusterName,
        scopes: [observability.metrics.id, cluster.resource.id],
        rules: platformAlerts(egressMode).map(({ annotations, expr, alert, severity, forMinutes }) => ({
          alert,
          expression: expr,
          for: `PT${forMinutes}M`,
          severity: SEVERITY[severity],
          labels: { severity },
          annotations,
          enabled: true,
          resolveConfiguration: { autoResolved: true, timeToResolve: 'PT10M' },
          actions: severity === 'page' ? [{ actionGroupId: observability.pagerId }] : [],
        })),
      },
      { parent: this, dependsOn: [association] },
    )
    this.registerOutputs({})
  }

  #collection(name: string, { site, cluster, observability }: ClusterMonitoringArgs) {
    const place = { resourceGroupName: site.resourceGroupName, location: site.location, tags: site.tags }
    const endpoint = new DataCollectionEndpoint(
      `${name}-dce`,
      {
        ...place,
        dataCollectionEndpointName: `${name}-dce`,
        kind: 'Linux',
        networkAcls: { publicNetworkAccess: 'Enabled' },
      },
      { parent: this },
    )
    const rule = new DataCollectionRule(
      `${name}-dcr`,
      {
        ...place,
        dataCollectionRuleName: `${name}-dcr`,
        kind: 'Linux',
        dataCollectionEndpointId: endpoint.id,
        dataSources: {
          prometheusForwarder: [{ name: 'prometheus', streams: ['Microsoft-PrometheusMetrics'] }],
        },
        destinations: {
          monitoringAccounts: [{ name: 'metrics', accountResourceId: observability.metrics.id }],
        },
        dataFlows: [{ streams: ['Microsoft-PrometheusMetrics'], destinations: ['metrics'] }],
      },
      { parent: this },
    )
    return new DataCollectionRuleAssociation(
      `${name}-dcra`,
      {
        associationName: `${name}-dcra`,
        resourceUri: cluster.resource.id,
        dataCollectionRuleId: rule.id,
        description: 'Metrics of the cluster. Deleting it stops their collection.',
      },
      { parent: this },
    )
  }
}
