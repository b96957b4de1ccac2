import { AgentPool } from '@pulumi/azure-native/containerservice/agentPool.js'
import type { ManagedCluster } from '@pulumi/azure-native/containerservice/managedCluster.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Resource } from '@pulumi/pulumi'
import { IMMUTABLE } from '../model/force-new.ts'
import type { appPool, kataPool } from '../model/node-pools.ts'
import { goesWith, type Site } from './site.ts'

type Settings = ReturnType<typeof appPool<Input<string>>> | ReturnType<typeof kataPool<Input<string>>>

export interface NodePoolArgs {
  readonly site: Site
  readonly cluster: ManagedCluster
  readonly agentPoolName: string
  readonly settings: Settings
  /** Pools change one after the other, because Azure allows one change of a cluster at a time. */
  readonly after: readonly Resource[]
}

/** An additional pool. A change that Azure refuses in place replaces the pool, the old one first. */
export class NodePool extends ComponentResource {
  readonly resource: AgentPool

  constructor(name: string, args: NodePoolArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:NodePool', name, {}, options)
    const { site, cluster, agentPoolName, settings, after } = args
    this.resource = new AgentPool(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        resourceName: cluster.name,
        agentPoolName,
        ...settings,
      },
      {
        parent: this,
        dependsOn: [...after],
        ...goesWith(cluster, site),
        ignoreChanges: ['count', 'orchestratorVersion'],
        replaceOnChanges: [...(IMMUTABLE['azure-native:containerservice:AgentPool']?.refused ?? [])],
        deleteBeforeReplace: true,
        customTimeouts: { create: '45m', update: '90m', delete: '45m' },
      },
    )
    this.registerOutputs({})
  }
}
