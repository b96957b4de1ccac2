import { Registry as AzureRegistry } from '@pulumi/azure-native/containerregistry/registry.js'
import { PrivateDnsZoneGroup } from '@pulumi/azure-native/network/privateDnsZoneGroup.js'
import { PrivateEndpoint } from '@pulumi/azure-native/network/privateEndpoint.js'
import { PrivateZone } from '@pulumi/azure-native/privatedns/privateZone.js'
import { VirtualNetworkLink } from '@pulumi/azure-native/privatedns/virtualNetworkLink.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from '@pulumi/pulumi'
import type { PlatformConfig } from '../config-sections.ts'
import { grant } from './grant.ts'
import type { Site } from './site.ts'

export interface RegistryArgs {
  readonly site: Site
  readonly registryName: string
  readonly registry: PlatformConfig['registry']
  /** The identity of the nodes, which pulls images. */
  readonly kubelet: { readonly principalId: Input<string>; readonly name: string }
  readonly virtualNetworkId: Input<string>
  readonly endpointSubnetId: Input<string>
}

/** The registry of all images. Nodes pull with their identity; anonymous pull is off. */
export class Registry extends ComponentResource {
  readonly registryId: Output<string>
  readonly loginHost: string

  constructor(name: string, args: RegistryArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:Registry', name, {}, options)
    const { site, registryName, registry, kubelet } = args
    const isPremium = registry.sku === 'Premium'
    const resource = new AzureRegistry(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        location: site.location,
        tags: site.tags,
        registryName,
        sku: { name: registry.sku },
        adminUserEnabled: false,
        anonymousPullEnabled: false,
        publicNetworkAccess: registry.allowedRanges?.length === 0 ? 'Disabled' : 'Enabled',
        ...(isPremium && {
          zoneRedundancy: 'Enabled',
          // Soft deletion and retention exclude each other; a preview slice leaves untagged images behind.
          policies: { retentionPolicy: { days: 30, status: 'enabled' } },
        }),
        ...(registry.allowedRanges && {
          networkRuleBypassOptions: 'None',
          networkRuleSet: {
            defaultAction: 'Deny',
            ipRules: registry.allowedRanges.map((range) => ({ action: 'Allow', iPAddressOrRange: range })),
          },
        }),
      },
      { parent: this, protect: site.protect },
    )
    grant(
      {
        site,
        role: 'AcrPull',
        principalId: kubelet.principalId,
        principal: kubelet.name,
        scope: resource.id,
        on: registryName,
        why: 'nodes pull images',
      },
      { parent: this },
    )
    if (registry.allowedRanges) this.#privateEndpoint(name, args, resource.id)
    this.registryId = resource.id
    this.loginHost = `${registryName}.azurecr.io`
    this.registerOutputs({})
  }

  /** Nodes find the registry at a private address under its public name. */
  #privateEndpoint(name: string, args: RegistryArgs, registryId: Input<string>): void {
    const { site, virtualNetworkId, endpointSubnetId } = args
    const { resourceGroupName, location, tags } = site
    const parent = { parent: this }
    const zone = new PrivateZone(
      `${name}-zone`,
      { resourceGroupName, location: 'global', tags, privateZoneName: 'privatelink.azurecr.io' },
      parent,
    )
    const link = new VirtualNetworkLink(
      `${name}-zone-link`,
      {
        resourceGroupName,
        location: 'global',
        tags,
        privateZoneName: zone.name,
        virtualNetworkLinkName: name,
        registrationEnabled: false,
        virtualNetwork: { id: virtualNetworkId },
      },
      parent,
    )
    const endpoint = new PrivateEndpoint(
      `${name}-endpoint`,
      {
        resourceGroupName,
        location,
        tags,
        privateEndpointName: `${name}-endpoint`,
        customNetworkInterfaceName: `${name}-endpoint-nic`,
        subnet: { id: endpointSubnetId },
        privateLinkServiceConnections: [
          { name: 'registry', groupIds: ['registry'], privateLinkServiceId: registryId },
        ],
      },
      { parent: this, dependsOn: [link] },
    )
    new PrivateDnsZoneGroup(
      `${name}-endpoint-dns`,
      {
        resourceGroupName,
        privateEndpointName: endpoint.name,
        privateDnsZoneGroupName: 'registry',
        privateDnsZoneConfigs: [{ name: 'registry', privateDnsZoneId: zone.id }],
      },
      parent,
    )
  }
}
