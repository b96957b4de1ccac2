import { Provider } from '@pulumi/azure-native/provider.js'
import { type ComponentResourceOptions, getStack, type Input, type Resource } from '@pulumi/pulumi'
import { KeyVault } from '../components/key-vault.ts'
import { Network } from '../components/network.ts'
import { Observability } from '../components/observability.ts'
import { ResourceGroup } from '../components/resource-group.ts'
import type { Site } from '../components/site.ts'
import type { PlatformConfig } from '../config-sections.ts'
import type { NetworkBoundary } from '../model/layers.ts'
import { type PlatformNames, resourceGroupId } from '../model/platform-names.ts'
import { platformTags } from '../model/tags.ts'

/**
 * The network as the rest of a platform uses it, whether this stack creates it, another stack does, or it existed
 * before.
 */
export interface NetworkGround extends NetworkBoundary<Input<string>> {
  /** Id of the nodes' subnet, built from names, so that it is known while planning. */
  readonly nodesId: string
  /** Resources of this stack that a cluster must wait for. */
  readonly ready: readonly Resource[]
  /** The nodes' subnet, if this stack creates it. */
  readonly nodes: readonly Resource[]
}

/** Whose subscription it is. */
export function openSubscription({ subscriptionId, tenantId }: PlatformConfig): ComponentResourceOptions {
  return { providers: [new Provider('azure', { subscriptionId, tenantId })] }
}

/**
 * Location and options of a platform's resources. Layers share the salt for the names of grants, so a grant has the
 * same name in every stack that creates it.
 */
export function siteOf(
  config: PlatformConfig,
  names: PlatformNames,
  { resourceGroupName, stack = getStack() }: { resourceGroupName: Input<string>; stack?: string },
): Site {
  const { subscriptionId, location, protect, grantGeneration } = config
  return {
    stack,
    subscriptionId,
    resourceGroupName,
    groupId: resourceGroupId(subscriptionId, names.resourceGroup),
    location,
    tags: platformTags(config),
    protect,
    grantGeneration,
  }
}

/** Creates the resource group of the platform, and its network unless the network already exists. */
export function layNetwork(
  config: PlatformConfig,
  names: PlatformNames,
  options: ComponentResourceOptions,
): { readonly group: ResourceGroup; readonly network: NetworkGround } {
  const { location, protect } = config
  const group = new ResourceGroup(
    names.base,
    { resourceGroupName: names.resourceGroup, location, tags: platformTags(config), protect },
    options,
  )
  const resourceGroupName = group.groupName
  const existing = existingNetwork(config)
  if (existing) return { group, network: { ...existing, resourceGroupName, ready: [], nodes: [] } }
  const site = siteOf(config, names, { resourceGroupName })
  const { virtualNetwork, ready, ...made } = new Network(
    names.base,
    { site, network: config.network },
    options,
  )
  const subnets = {
    nodes: made.nodes.id,
    apiServer: made.apiServer.id,
    database: made.database.id,
    endpoints: made.endpoints.id,
  }
  const network = {
    resourceGroupName,
    virtualNetworkId: virtualNetwork.id,
    subnets,
    nodesId: nodesSubnetId(config, names),
    ready,
    nodes: [made.nodes],
  }
  return { group, network }
}

/** Ids of an existing network. Undefined if the program creates its own. */
function existingNetwork({ network: { existing } }: PlatformConfig) {
  if (existing === undefined) return undefined
  const { virtualNetworkId, subnets } = existing
  const id = (name: string) => `${virtualNetworkId}/subnets/${name}`
  return {
    virtualNetworkId,
    subnets: {
      nodes: id(subnets.nodes),
      apiServer: id(subnets.apiServer),
      database: id(subnets.database),
      endpoints: id(subnets.endpoints),
    },
    nodesId: id(subnets.nodes),
  }
}

/**
 * Id of the nodes' subnet, built from names. A vault's rules must be known while planning, or a reviewer cannot see
 * them.
 */
export function nodesSubnetId(config: PlatformConfig, names: PlatformNames): string {
  const group = resourceGroupId(config.subscriptionId, names.resourceGroup)
  const own = `${group}/providers/Microsoft.Network/virtualNetworks/${names.base}-vnet/subnets/${names.base}-nodes`
  return existingNetwork(config)?.nodesId ?? own
}

interface Footing {
  readonly options: ComponentResourceOptions
  readonly site: Site
  readonly network: NetworkGround
}

/** What the cluster and its services stand on: a network, a place for logs, and two vaults. */
export function layGround(config: PlatformConfig, names: PlatformNames, footing: Footing) {
  const { options, site, network } = footing
  const { observability: settings, adminGroupIds, tenantId } = config
  const observability = new Observability(
    names.base,
    { site, observability: settings, adminGroupIds },
    options,
  )
  const vault = (purpose: string, vaultName: string) =>
    new KeyVault(
      `${names.base}-${purpose}`,
      {
        site,
        tenantId,
        vaultName,
        subnet: { id: network.nodesId, after: network.nodes },
        logsId: observability.logsId,
      },
      options,
    )
  const vaults = {
    controlPlane: vault('control-plane-vault', names.controlPlaneVault),
    userTokens: vault('user-token-vault', names.userTokenVault),
  }
  return { ...footing, observability, vaults }
}
export type Ground = ReturnType<typeof layGround>
