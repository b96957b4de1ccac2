import { Provider } from '@pulumi/azure-native/provider.js'
import { type ComponentResourceOptions, getStack } from '@pulumi/pulumi'
import { KeyVault } from '../components/key-vault.ts'
import { Network } from '../components/network.ts'
import { Observability } from '../components/observability.ts'
import { ResourceGroup } from '../components/resource-group.ts'
import type { Site } from '../components/site.ts'
import type { PlatformConfig } from '../config-sections.ts'
import { type PlatformNames, resourceGroupId } from '../plans/platform-names.ts'
import { platformTags } from '../plans/tags.ts'

/** What everything stands on: whose subscription it is, a group, a network, a place for logs, and two vaults. */
export function layGround(config: PlatformConfig, names: PlatformNames) {
  const { subscriptionId, tenantId, location } = config
  const azure = new Provider('azure', { subscriptionId, tenantId })
  const options: ComponentResourceOptions = { providers: [azure] }
  const tags = platformTags(config)
  const group = new ResourceGroup(
    names.base,
    { resourceGroupName: names.resourceGroup, location, tags, protect: config.protect },
    options,
  )
  const site: Site = {
    stack: getStack(),
    subscriptionId,
    resourceGroupName: group.groupName,
    groupId: resourceGroupId(subscriptionId, names.resourceGroup),
    location,
    tags,
    protect: config.protect,
    grantGeneration: config.grantGeneration,
  }
  const network = new Network(names.base, { site, network: config.network }, options)
  const { observability: settings, adminGroupIds } = config
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
        subnet: { id: network.nodesId, resource: network.nodes },
        logsId: observability.logsId,
      },
      options,
    )
  const vaults = {
    controlPlane: vault('control-plane-vault', names.controlPlaneVault),
    userTokens: vault('user-token-vault', names.userTokenVault),
  }
  return { options, group, site, network, observability, vaults }
}
export type Ground = ReturnType<typeof layGround>
