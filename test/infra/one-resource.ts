import type { AgentPoolArgs, ManagedClusterArgs } from '@pulumi/azure-native/containerservice/index.js'
import type { Plan, PlannedResource, PlannedValue } from '../../contracts/planned-resource.ts'

export const CLUSTER = 'azure-native:containerservice:ManagedCluster'
export const POOL = 'azure-native:containerservice:AgentPool'

export const POOL_ARGS = {
  resourceGroupName: 'rg-aw-dev',
  resourceName: 'aks-aw-dev',
  agentPoolName: 'kata1',
  mode: 'User',
  osSKU: 'AzureLinux',
  workloadRuntime: 'KataVmIsolation',
  vmSize: 'Standard_D8ds_v5',
  osDiskSizeGB: 256,
  count: 1,
  maxPods: 110,
  nodeTaints: ['sandbox=kata:NoSchedule'],
  nodeLabels: { 'agentweaver.io/kata': 'true' },
  upgradeSettings: { maxSurge: '1', drainTimeoutInMinutes: 30 },
} satisfies AgentPoolArgs

export const CLUSTER_ARGS = {
  resourceGroupName: 'rg-aw-dev',
  resourceName: 'aks-aw-dev',
  location: 'swedencentral',
  identity: { type: 'UserAssigned' as const, userAssignedIdentities: ['/subscriptions/x'] },
  networkProfile: { networkPlugin: 'azure', podCidr: '10.244.0.0/16', dnsServiceIP: '10.0.0.10' },
  agentPoolProfiles: [{ name: 'system', mode: 'System', osDiskSizeGB: 128 }],
  addonProfiles: {
    azureKeyvaultSecretsProvider: { enabled: true, config: { enableSecretRotation: 'true' } },
  },
} satisfies ManagedClusterArgs

/** A plan of one resource. */
export function planOf(type: string, inputs: object): Plan {
  const resource: PlannedResource = {
    urn: `urn:pulumi:dev::agentweaver::${type}::thing`,
    type,
    name: 'thing',
    custom: true,
    inputs: inputs as { [key: string]: PlannedValue },
    dependencies: [],
    protect: false,
    ignoreChanges: [],
    retainOnDelete: false,
  }
  return { project: 'agentweaver', stack: 'dev', resources: [resource], outputs: {} }
}
