import { MaintenanceConfiguration } from '@pulumi/azure-native/containerservice/maintenanceConfiguration.js'
import { ManagedCluster } from '@pulumi/azure-native/containerservice/managedCluster.js'
import { UserAssignedIdentity } from '@pulumi/azure-native/managedidentity/userAssignedIdentity.js'
import {
  ComponentResource,
  type ComponentResourceOptions,
  type Input,
  type Output,
  type Resource,
} from '@pulumi/pulumi'
import { KATA_NODE_LABEL } from '../../contracts/labels.ts'
import type { PlatformConfig } from '../config-sections.ts'
import { AUTO_SCALER, apiServerAccess, MAINTENANCE, networkProfile } from '../model/cluster-settings.ts'
import { systemPool } from '../model/node-pools.ts'
import type { PlatformNames } from '../model/platform-names.ts'
import { grant } from './grant.ts'
import { required } from './required.ts'
import { goesWith, type Site } from './site.ts'

export interface ClusterArgs {
  readonly site: Site
  readonly config: PlatformConfig
  readonly names: PlatformNames
  readonly network: {
    readonly subnets: { readonly nodes: Input<string>; readonly apiServer: Input<string> }
    /** What the cluster must wait for. */
    readonly ready: readonly Resource[]
  }
}

/** The cluster and its system pool. Its identities exist, with their rights, before it does. */
export class Cluster extends ComponentResource {
  readonly resource: ManagedCluster
  readonly issuer: Output<string>
  /** The identity of the nodes, known before the cluster is. */
  readonly kubelet: UserAssignedIdentity

  constructor(name: string, args: ClusterArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:Cluster', name, {}, options)
    const { site, names } = args
    const controlPlane = this.#identity(site, names.identity('control-plane'))
    this.kubelet = this.#identity(site, names.identity('kubelet'))
    const grants = this.#grants(args, controlPlane)
    this.resource = this.#cluster(name, args, { controlPlane, grants })
    this.issuer = required(
      this.resource.oidcIssuerProfile.apply((profile) => profile?.issuerURL),
      'the issuer of the cluster',
    )
    this.#maintenance(name, site)
    this.registerOutputs({})
  }

  #identity(site: Site, resourceName: string): UserAssignedIdentity {
    const { resourceGroupName, location, tags } = site
    return new UserAssignedIdentity(
      resourceName,
      { resourceGroupName, location, tags, resourceName },
      { parent: this },
    )
  }

  /** Roles that the control plane needs with a custom network and a custom identity. Without them, creation fails. */
  #grants({ site, names, network }: ClusterArgs, controlPlane: UserAssignedIdentity): Resource[] {
    const of = {
      site,
      principalId: controlPlane.principalId,
      principal: names.identity('control-plane'),
    } as const
    const subnet = { ...of, role: 'Network Contributor', why: 'joins nodes and load balancers' } as const
    const parent = { parent: this }
    return [
      grant({ ...subnet, scope: network.subnets.nodes, on: 'nodes-subnet' }, parent),
      grant(
        {
          ...subnet,
          scope: network.subnets.apiServer,
          on: 'api-server-subnet',
          why: 'projects the API server',
        },
        parent,
      ),
      grant(
        {
          ...of,
          role: 'Managed Identity Operator',
          scope: this.kubelet.id,
          on: 'kubelet-identity',
          why: 'gives nodes their identity',
        },
        parent,
      ),
    ]
  }

  #cluster(
    name: string,
    { site, config, names, network }: ClusterArgs,
    before: { controlPlane: UserAssignedIdentity; grants: readonly Resource[] },
  ): ManagedCluster {
    const nodes = { subnetId: network.subnets.nodes, tags: site.tags }
    return new ManagedCluster(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        location: site.location,
        tags: site.tags,
        resourceName: names.cluster,
        dnsPrefix: names.cluster,
        nodeResourceGroup: names.nodeResourceGroup,
        nodeResourceGroupProfile: { restrictionLevel: 'ReadOnly' },
        kubernetesVersion: config.kubernetes.version,
        sku: { name: 'Base', tier: config.kubernetes.tier },
        supportPlan: config.kubernetes.tier === 'Premium' ? 'AKSLongTermSupport' : 'KubernetesOfficial',
        identity: { type: 'UserAssigned', userAssignedIdentities: [before.controlPlane.id] },
        identityProfile: {
          kubeletidentity: {
            resourceId: this.kubelet.id,
            clientId: this.kubelet.clientId,
            objectId: this.kubelet.principalId,
          },
        },
        enableRBAC: true,
        disableLocalAccounts: true,
        aadProfile: {
          managed: true,
          enableAzureRBAC: true,
          tenantID: config.tenantId,
          adminGroupObjectIDs: [...config.adminGroupIds],
        },
        ...apiServerAccess(config.apiServer, network.subnets.apiServer),
        networkProfile: networkProfile(config.network, config.egress.advancedPolicies),
        agentPoolProfiles: [systemPool(config.pools.system, nodes)],
        autoScalerProfile: AUTO_SCALER,
        autoUpgradeProfile: { upgradeChannel: 'patch', nodeOSUpgradeChannel: 'NodeImage' },
        oidcIssuerProfile: { enabled: true },
        securityProfile: {
          workloadIdentity: { enabled: true },
          imageCleaner: { enabled: true, intervalHours: 48 },
        },
        azureMonitorProfile: {
          metrics: {
            enabled: true,
            kubeStateMetrics: { metricLabelsAllowlist: `nodes=[${KATA_NODE_LABEL.key}]` },
          },
        },
        metricsProfile: { costAnalysis: { enabled: true } },
        storageProfile: {
          diskCSIDriver: { enabled: true },
          fileCSIDriver: { enabled: false },
          blobCSIDriver: { enabled: false },
          snapshotController: { enabled: true },
        },
      },
      {
        parent: this,
        protect: site.protect,
        dependsOn: [...network.ready, ...before.grants],
        // The autoscaler and the upgrade channels own these.
        ignoreChanges: [
          'kubernetesVersion',
          'agentPoolProfiles[0].count',
          'agentPoolProfiles[0].orchestratorVersion',
        ],
        customTimeouts: { create: '60m', update: '90m', delete: '60m' },
      },
    )
  }

  #maintenance(name: string, site: Site): void {
    let before: Resource = this.resource
    for (const { configName, schedule, durationHours, startTime } of MAINTENANCE) {
      before = new MaintenanceConfiguration(
        `${name}-${configName}`,
        {
          resourceGroupName: site.resourceGroupName,
          resourceName: this.resource.name,
          configName,
          maintenanceWindow: { schedule, durationHours, startTime, utcOffset: '+00:00' },
        },
        { parent: this, dependsOn: [before], ...goesWith(this.resource, site) },
      )
    }
  }
}
