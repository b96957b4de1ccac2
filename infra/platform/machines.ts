import type { Resource } from '@pulumi/pulumi'
import { Cluster } from '../components/cluster.ts'
import { ClusterMonitoring } from '../components/cluster-monitoring.ts'
import { KubeAccess } from '../components/kube-access.ts'
import { NodePool, type NodePoolArgs } from '../components/node-pool.ts'
import { Registry } from '../components/registry.ts'
import { type ControllerCluster, SandboxController } from '../components/sandbox-controller.ts'
import type { PlatformConfig } from '../config-sections.ts'
import { hasPublicName } from '../model/cluster-settings.ts'
import type { KubeManifest } from '../model/controller-release.ts'
import { appPool, kataPool, poolName } from '../model/node-pools.ts'
import type { PlatformNames } from '../model/platform-names.ts'
import type { Ground } from './ground.ts'

/** Creates the cluster with its pools, the registry, and their monitoring. */
export function raiseCluster(config: PlatformConfig, names: PlatformNames, ground: Ground) {
  const { site, network, observability, options } = ground
  const cluster = new Cluster(names.cluster, { site, config, names, network }, options)
  const placement = { subnetId: network.subnets.nodes, tags: site.tags }
  const { app, kata } = config.pools
  const pool = (purpose: 'app' | 'kata', args: Pick<NodePoolArgs, 'settings' | 'after'>) => {
    const agentPoolName = poolName(purpose, config.pools[purpose].generation)
    return new NodePool(
      `${names.base}-${agentPoolName}`,
      { site, cluster: cluster.resource, agentPoolName, ...args },
      options,
    ).resource
  }
  const appNodes = pool('app', { settings: appPool(app, placement), after: [] })
  const kataNodes = pool('kata', { settings: kataPool(kata, placement), after: [appNodes] })
  new Registry(
    names.base,
    {
      site,
      registryName: names.registry,
      registry: config.registry,
      kubelet: { principalId: cluster.kubelet.principalId, name: names.identity('kubelet') },
      virtualNetworkId: network.virtualNetworkId,
      endpointSubnetId: network.subnets.endpoints,
    },
    options,
  )
  new ClusterMonitoring(
    names.base,
    { site, cluster, clusterName: names.cluster, observability, egressMode: config.egress.mode },
    options,
  )
  return { cluster, pools: [appNodes, kataNodes] }
}

interface ControllerPlace extends Pick<Ground, 'site' | 'options'> {
  readonly cluster: ControllerCluster
  readonly pools: readonly Resource[]
  readonly release: readonly KubeManifest[]
}

/** Creates the controller after the nodes that it runs on. */
export function installController(
  config: PlatformConfig,
  names: PlatformNames,
  { site, options, cluster, pools, release }: ControllerPlace,
): void {
  const { provider } = new KubeAccess(
    `${names.base}-kube`,
    {
      resourceGroupName: site.resourceGroupName,
      clusterName: cluster.name,
      clusterIdentifier: `${config.subscriptionId}/${names.resourceGroup}/${names.cluster}`,
      forgetUnreachable: !config.protect,
      byPublicName: hasPublicName(config.apiServer),
    },
    options,
  )
  new SandboxController(
    'agent-sandbox',
    { site, cluster, kube: provider, controller: config.controller, release, pools },
    options,
  )
}
