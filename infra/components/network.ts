import { NatGateway } from '@pulumi/azure-native/network/natGateway.js'
import { NetworkSecurityGroup } from '@pulumi/azure-native/network/networkSecurityGroup.js'
import { PublicIPAddress } from '@pulumi/azure-native/network/publicIPAddress.js'
import { Subnet, type SubnetArgs } from '@pulumi/azure-native/network/subnet.js'
import { VirtualNetwork } from '@pulumi/azure-native/network/virtualNetwork.js'
import { VirtualNetworkPeering } from '@pulumi/azure-native/network/virtualNetworkPeering.js'
import { ComponentResource, type ComponentResourceOptions, type Resource } from '@pulumi/pulumi'
import type { PlatformConfig } from '../config-sections.ts'
import { type Flow, securityRules } from '../model/security-rules.ts'
import type { Site } from './site.ts'

export interface NetworkArgs {
  readonly site: Site
  readonly network: PlatformConfig['network']
}

type NetworkConfig = PlatformConfig['network']

/** A delegated subnet, in which GitHub may place the machines of its runners. */
const runnerSubnet = ({ cidr, host }: NonNullable<NetworkConfig['runners']>) => ({
  addressPrefix: cidr,
  ...(host === 'github' && {
    delegations: [{ name: 'github', serviceName: 'GitHub.Network/networkSettings' }],
  }),
})

/** Ranges that are connected only for the API server. No node accepts a connection from them. */
const connectedRanges = ({ runners, peerings }: NetworkConfig): readonly string[] => [
  ...(runners ? [runners.cidr] : []),
  ...peerings.flatMap(({ ranges }) => ranges),
]

/**
 * A network that this program creates. Its subnets reach the Internet only through one NAT gateway, so that their
 * public address is known. The gateway is bound to the nodes' subnet before any cluster can use it.
 */
export class Network extends ComponentResource {
  readonly virtualNetwork: VirtualNetwork
  readonly nodes: Subnet
  readonly apiServer: Subnet
  readonly database: Subnet
  readonly endpoints: Subnet
  /** Resources that a cluster depends on. */
  readonly ready: readonly Resource[]

  constructor(name: string, { site, network }: NetworkArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:Network', name, {}, options)
    const parent = { parent: this }
    const place = {
      resourceGroupName: site.resourceGroupName,
      location: site.location,
      tags: site.tags,
    }
    const gateway = this.#natGateway(name, site, network)
    this.virtualNetwork = new VirtualNetwork(
      `${name}-vnet`,
      { ...place, virtualNetworkName: `${name}-vnet`, addressSpace: { addressPrefixes: [network.vnetCidr] } },
      // Subnets are separate resources. Listed here too, each update would undo the other.
      { ...parent, ignoreChanges: ['subnets'], protect: site.protect },
    )
    const group = (purpose: string, flows: readonly Flow[], refused: readonly string[] = []) =>
      new NetworkSecurityGroup(
        `${name}-${purpose}-nsg`,
        {
          ...place,
          networkSecurityGroupName: `${name}-${purpose}-nsg`,
          securityRules: securityRules(flows, refused),
        },
        parent,
      )
    const { nodeCidr, apiServerCidr, databaseCidr, endpointCidr } = network
    this.nodes = this.#subnet(site, `${name}-nodes`, {
      addressPrefix: nodeCidr,
      natGateway: { id: gateway.id },
      networkSecurityGroup: {
        id: group('nodes', [{ from: 'Internet', ports: ['80', '443'], why: 'web' }], connectedRanges(network))
          .id,
      },
      // Vaults are reached at their public names from this subnet alone: pods may open no private address.
      serviceEndpoints: [{ service: 'Microsoft.KeyVault', locations: ['*'] }],
    })
    this.apiServer = this.#subnet(site, `${name}-api-server`, {
      addressPrefix: apiServerCidr,
      delegations: [{ name: 'aks', serviceName: 'Microsoft.ContainerService/managedClusters' }],
      after: this.nodes,
    })
    this.database = this.#subnet(site, `${name}-database`, {
      addressPrefix: databaseCidr,
      delegations: [{ name: 'postgres', serviceName: 'Microsoft.DBforPostgreSQL/flexibleServers' }],
      networkSecurityGroup: {
        id: group('database', [
          { from: nodeCidr, ports: ['5432'], why: 'pods-to-postgres' },
          { from: databaseCidr, ports: ['5432', '6432'], why: 'standby' },
        ]).id,
      },
      after: this.apiServer,
    })
    this.endpoints = this.#subnet(site, `${name}-endpoints`, {
      addressPrefix: endpointCidr,
      privateEndpointNetworkPolicies: 'Enabled',
      networkSecurityGroup: {
        id: group('endpoints', [{ from: nodeCidr, ports: ['443'], why: 'nodes-to-registry' }]).id,
      },
      after: this.database,
    })
    const { runners } = network
    const last = runners
      ? this.#subnet(site, `${name}-runners`, {
          ...runnerSubnet(runners),
          natGateway: { id: gateway.id },
          // Runners only open connections; none is opened to them.
          networkSecurityGroup: { id: group('runners', []).id },
          after: this.endpoints,
        })
      : this.endpoints
    this.#peerings(name, { site, network }, last)
    this.ready = [gateway, this.nodes, this.apiServer]
    this.registerOutputs({})
  }

  #natGateway(name: string, site: Site, network: NetworkArgs['network']): NatGateway {
    const { resourceGroupName, location, tags } = site
    const address = new PublicIPAddress(
      `${name}-egress-ip`,
      {
        resourceGroupName,
        location,
        tags,
        publicIpAddressName: `${name}-egress`,
        publicIPAllocationMethod: 'Static',
        publicIPAddressVersion: 'IPv4',
        sku: { name: 'Standard', tier: 'Regional' },
        zones: network.egressZones,
      },
      // Third parties have this address in their allow lists.
      { parent: this, protect: site.protect },
    )
    return new NatGateway(
      `${name}-nat`,
      {
        resourceGroupName,
        location,
        tags,
        natGatewayName: `${name}-nat`,
        sku: { name: 'Standard' },
        publicIpAddresses: [{ id: address.id }],
        idleTimeoutInMinutes: 10,
      },
      { parent: this },
    )
  }

  /**
   * This side of each peering. Azure allows one change of a network at a time, so peerings are created after the
   * subnets.
   */
  #peerings(name: string, { site, network }: NetworkArgs, last: Resource): void {
    let before = last
    for (const peering of network.peerings) {
      before = new VirtualNetworkPeering(
        `${name}-${peering.name}`,
        {
          resourceGroupName: site.resourceGroupName,
          virtualNetworkName: this.virtualNetwork.name,
          virtualNetworkPeeringName: peering.name,
          remoteVirtualNetwork: { id: peering.virtualNetworkId },
          allowVirtualNetworkAccess: true,
          allowForwardedTraffic: false,
          allowGatewayTransit: false,
          useRemoteGateways: false,
        },
        { parent: this, dependsOn: [before] },
      )
    }
  }

  /** One after the other: Azure changes one subnet of a network at a time. */
  #subnet(
    site: Site,
    name: string,
    { after, ...args }: Omit<SubnetArgs, 'resourceGroupName' | 'virtualNetworkName'> & { after?: Resource },
  ): Subnet {
    return new Subnet(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        virtualNetworkName: this.virtualNetwork.name,
        subnetName: name,
        defaultOutboundAccess: false,
        ...args,
      },
      { parent: this, protect: site.protect, ...(after ? { dependsOn: [after] } : {}) },
    )
  }
}
