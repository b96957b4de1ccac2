import { expect } from 'vitest'
import { azureStandIn } from '../../fakes/pulumi/azure/azure-provider.ts'
import type { Properties } from '../../fakes/pulumi/values.ts'
import { aProvider, type ProviderClient } from './provider-client.ts'

export const SUBSCRIPTION = '11111111-2222-3333-4444-555555555555'
export const TENANT = '99999999-8888-7777-6666-555555555555'
export const ARGS = { subscriptionId: SUBSCRIPTION, tenantId: TENANT, location: 'westeurope' }
export const azure = () => aProvider(azureStandIn, ARGS)
export const GROUP = 'azure-native:resources:ResourceGroup'
export const NETWORK = 'azure-native:network:VirtualNetwork'
export const SUBNET = 'azure-native:network:Subnet'
export const IDENTITY = 'azure-native:managedidentity:UserAssignedIdentity'
export const CREDENTIAL = 'azure-native:managedidentity:FederatedIdentityCredential'
export const ASSIGNMENT = 'azure-native:authorization:RoleAssignment'
export const CLUSTER = 'azure-native:containerservice:ManagedCluster'
export const POOL = 'azure-native:containerservice:AgentPool'
export const VAULT = 'azure-native:keyvault:Vault'
export const NETWORK_CONTRIBUTOR = `/subscriptions/${SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/4d97b98b-1d4f-4787-a291-c67834d212e7`

export async function make(provider: ProviderClient, type: string, inputs: Properties) {
  const checked = await provider.check([type, 'one'], inputs)
  expect(checked.failures).toEqual([])
  return { ...(await provider.create([type, 'one'], checked.inputs)), inputs: checked.inputs }
}
export const aGroup = (provider: ProviderClient) => make(provider, GROUP, { resourceGroupName: 'rg-test' })
export async function aNetwork(provider: ProviderClient) {
  await aGroup(provider)
  await make(provider, NETWORK, { resourceGroupName: 'rg-test', virtualNetworkName: 'net' })
  return make(provider, SUBNET, {
    resourceGroupName: 'rg-test',
    virtualNetworkName: 'net',
    subnetName: 'nodes',
  })
}
export const clusterInputs = (subnet: string, identity: string): Properties => ({
  resourceGroupName: 'rg-test',
  resourceName: 'aks',
  dnsPrefix: 'aks',
  identity: { type: 'UserAssigned', userAssignedIdentities: [identity] },
  oidcIssuerProfile: { enabled: true },
  networkProfile: { podCidr: '10.244.0.0/16' },
  agentPoolProfiles: [{ name: 'system', vnetSubnetID: subnet, vmSize: 'Standard_D4ds_v5' }],
})
export async function aCluster(provider: ProviderClient) {
  const subnet = await aNetwork(provider)
  const identity = await make(provider, IDENTITY, { resourceGroupName: 'rg-test', resourceName: 'plane' })
  await make(provider, ASSIGNMENT, {
    scope: subnet.id,
    principalId: identity.outputs['principalId'] ?? null,
    principalType: 'ServicePrincipal',
    roleDefinitionId: NETWORK_CONTRIBUTOR,
    roleAssignmentName: '0e6cf6b1-1111-5222-8333-444455556666',
  })
  return make(provider, CLUSTER, clusterInputs(subnet.id, identity.id))
}
