import type { Input } from '@pulumi/pulumi'
import { Budget } from '../components/budget.ts'
import type { PlatformConfig } from '../config-sections.ts'
import { CONTROLLER_FILES, type KubeManifest } from '../model/controller-release.ts'
import type { ClusterBoundary, NetworkBoundary } from '../model/layers.ts'
import { platformNames } from '../model/platform-names.ts'
import { clusterBoundary, networkBoundary } from './boundaries.ts'
import { layGround, layNetwork, nodesSubnetId, openSubscription, siteOf } from './ground.ts'
import { installController, raiseCluster } from './machines.ts'
import { raiseServices } from './services.ts'

/** A whole platform in one stack, from its network to the controller. */
export function buildPlatform(config: PlatformConfig, release: readonly KubeManifest[]) {
  const names = platformNames(config)
  const options = openSubscription(config)
  const { group, network } = layNetwork(config, names, options)
  const site = siteOf(config, names, { resourceGroupName: group.groupName })
  const ground = layGround(config, names, { options, site, network })
  const machines = raiseCluster(config, names, ground)
  const { cluster, pools } = machines
  installController(config, names, {
    site,
    options,
    release,
    cluster: { name: cluster.resource.name, made: [cluster.resource] },
    pools,
  })
  const infra = raiseServices(config, names, { ...ground, ...machines })
  new Budget(names.base, { scope: group.groupId, budget: config.budget }, options)
  return {
    infra,
    resourceGroups: [names.resourceGroup, names.nodeResourceGroup],
    leftOnDestroy: retained(config),
  }
}

/** The first layer: the network and a way into it. */
export function buildNetworkLayer(config: PlatformConfig) {
  const names = platformNames(config)
  const { network } = layNetwork(config, names, openSubscription(config))
  const { resourceGroupName, virtualNetworkId, subnets } = network
  return {
    boundary: { resourceGroupName, virtualNetworkId, subnets } satisfies NetworkBoundary<Input<string>>,
    resourceGroups: [names.resourceGroup],
  }
}

/** The second layer: everything of Azure that stands in the network. It needs no way to the API server. */
export function buildClusterLayer(config: PlatformConfig) {
  const names = platformNames(config)
  const { environment } = config
  const { resourceGroupName, virtualNetworkId, subnets } = networkBoundary(environment)
  const options = openSubscription(config)
  const site = siteOf(config, names, { resourceGroupName, stack: environment })
  const nodesId = nodesSubnetId(config, names)
  const network = { resourceGroupName, virtualNetworkId, subnets, nodesId, ready: [], nodes: [] }
  const ground = layGround(config, names, { options, site, network })
  const machines = raiseCluster(config, names, ground)
  const infra = raiseServices(config, names, { ...ground, ...machines })
  new Budget(names.base, { scope: site.groupId, budget: config.budget }, options)
  return {
    infra,
    boundary: {
      resourceGroupName,
      clusterName: machines.cluster.resource.name,
    } satisfies ClusterBoundary<Input<string>>,
    resourceGroups: [names.nodeResourceGroup],
  }
}

/** The third layer: Kubernetes objects. The program must reach the API server. */
export function buildAddOnsLayer(config: PlatformConfig, release: readonly KubeManifest[]) {
  const names = platformNames(config)
  const { resourceGroupName, clusterName } = clusterBoundary(config.environment)
  const site = siteOf(config, names, { resourceGroupName, stack: config.environment })
  installController(config, names, {
    site,
    options: openSubscription(config),
    release,
    cluster: { name: clusterName, made: [] },
    pools: [],
  })
  return { resourceGroups: [], leftOnDestroy: retained(config) }
}

/** The CRDs that stay in the cluster when the controller is removed, so that sandboxes survive it. */
function retained({ controller }: PlatformConfig): string[] {
  if (controller.install !== 'upstream') return []
  return CONTROLLER_FILES.flatMap(({ objects }) => objects)
    .filter(({ kind }) => kind === 'CustomResourceDefinition')
    .map(({ name }) => name)
}
