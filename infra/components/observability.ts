import { Grafana } from '@pulumi/azure-native/dashboard/grafana.js'
import { ActionGroup } from '@pulumi/azure-native/monitor/actionGroup.js'
import { AzureMonitorWorkspace } from '@pulumi/azure-native/monitor/azureMonitorWorkspace.js'
import { Workspace } from '@pulumi/azure-native/operationalinsights/workspace.js'
import { ComponentResource, type ComponentResourceOptions, type Output } from '@pulumi/pulumi'
import type { PlatformConfig } from '../config-sections.ts'
import { grant } from './grant.ts'
import { required } from './required.ts'
import type { Site } from './site.ts'

export interface ObservabilityArgs {
  readonly site: Site
  readonly observability: PlatformConfig['observability']
  readonly adminGroupIds: readonly string[]
}

/** The stores of logs and metrics, the recipients of alerts, and the dashboards. `ClusterMonitoring` feeds them. */
export class Observability extends ComponentResource {
  readonly logsId: Output<string>
  readonly metrics: AzureMonitorWorkspace
  readonly pagerId: Output<string>

  constructor(name: string, args: ObservabilityArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:Observability', name, {}, options)
    const { site, observability } = args
    const place = { resourceGroupName: site.resourceGroupName, location: site.location, tags: site.tags }
    const logs = new Workspace(
      `${name}-logs`,
      {
        ...place,
        workspaceName: `${name}-logs`,
        retentionInDays: observability.retentionDays,
        sku: { name: 'PerGB2018' },
        // Readers must authenticate.
        features: { disableLocalAuth: true, enableLogAccessUsingOnlyResourcePermissions: true },
      },
      { parent: this, protect: site.protect },
    )
    this.metrics = new AzureMonitorWorkspace(
      `${name}-metrics`,
      { ...place, azureMonitorWorkspaceName: `${name}-metrics`, publicNetworkAccess: 'Enabled' },
      { parent: this, protect: site.protect },
    )
    const pager = new ActionGroup(
      `${name}-pager`,
      {
        resourceGroupName: site.resourceGroupName,
        location: 'Global',
        tags: site.tags,
        actionGroupName: `${name}-pager`,
        // Shown in messages; Azure allows twelve characters.
        groupShortName: 'agentweaver',
        enabled: true,
        emailReceivers: observability.alertEmails.map((emailAddress, index) => ({
          name: `mail-${index + 1}`,
          emailAddress,
          useCommonAlertSchema: true,
        })),
      },
      { parent: this },
    )
    this.logsId = logs.id
    this.pagerId = pager.id
    if (observability.grafana) this.#grafana(name, args)
    this.registerOutputs({})
  }

  #grafana(name: string, { site, adminGroupIds }: ObservabilityArgs): void {
    const grafana = new Grafana(
      `${name}-grafana`,
      {
        resourceGroupName: site.resourceGroupName,
        location: site.location,
        tags: site.tags,
        workspaceName: `${name.slice(0, 20)}-gf`,
        sku: { name: 'Standard' },
        identity: { type: 'SystemAssigned' },
        properties: {
          apiKey: 'Disabled',
          deterministicOutboundIP: 'Disabled',
          publicNetworkAccess: 'Enabled',
          zoneRedundancy: 'Disabled',
          grafanaIntegrations: {
            // The id is computed from names, because one unknown value would hide all of these properties from a plan.
            azureMonitorWorkspaceIntegrations: [
              {
                azureMonitorWorkspaceResourceId: `${site.groupId}/providers/Microsoft.Monitor/accounts/${name}-metrics`,
              },
            ],
          },
        },
      },
      { parent: this, dependsOn: [this.metrics] },
    )
    const principalId = required(
      grafana.identity.apply((identity) => identity?.principalId),
      'the identity of Grafana',
    )
    const read = {
      site,
      role: 'Monitoring Data Reader',
      scope: this.metrics.id,
      on: `${name}-metrics`,
    } as const
    grant({ ...read, principalId, principal: `${name}-grafana`, why: 'shows metrics' }, { parent: this })
    for (const [index, group] of adminGroupIds.entries()) {
      grant(
        {
          ...read,
          principalId: group,
          principal: `admin-group-${index + 1}`,
          principalType: 'Group',
          why: 'administrators read metrics',
        },
        { parent: this },
      )
    }
  }
}
