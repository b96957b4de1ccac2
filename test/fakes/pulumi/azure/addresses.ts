import { type Properties, plain } from '../values.ts'

/**
 * Resource path of each type in Azure: the path of a PUT, with the SDK's names for its parameters. The fake provider
 * rejects a type that is missing here, so that it never simulates a resource without a path.
 */
const inGroup = (rest: string) =>
  `/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}/providers/${rest}`
const inCluster = (rest: string) =>
  inGroup(`Microsoft.ContainerService/managedClusters/{resourceName}/${rest}`)
const inServer = (rest: string) => inGroup(`Microsoft.DBforPostgreSQL/flexibleServers/{serverName}/${rest}`)
const inVault = (rest: string) => inGroup(`Microsoft.KeyVault/vaults/{vaultName}/${rest}`)
const inAccount = (rest: string) => inGroup(`Microsoft.Storage/storageAccounts/{accountName}/${rest}`)
const inAnyCluster = (rest: string) =>
  inGroup(
    `{clusterRp}/{clusterResourceName}/{clusterName}/providers/Microsoft.KubernetesConfiguration/${rest}`,
  )

const ADDRESSES: Readonly<Record<string, string>> = {
  'alertsmanagement:PrometheusRuleGroup': inGroup(
    'Microsoft.AlertsManagement/prometheusRuleGroups/{ruleGroupName}',
  ),
  'applicationinsights:Component': inGroup('Microsoft.Insights/components/{resourceName}'),
  'authorization:ManagementLockByScope': '{scope}/providers/Microsoft.Authorization/locks/{lockName}',
  'authorization:RoleAssignment':
    '{scope}/providers/Microsoft.Authorization/roleAssignments/{roleAssignmentName}',
  'authorization:RoleDefinition':
    '{scope}/providers/Microsoft.Authorization/roleDefinitions/{roleDefinitionId}',
  'consumption:Budget': '{scope}/providers/Microsoft.Consumption/budgets/{budgetName}',
  'containerregistry:Registry': inGroup('Microsoft.ContainerRegistry/registries/{registryName}'),
  'containerservice:AgentPool': inCluster('agentPools/{agentPoolName}'),
  'containerservice:MaintenanceConfiguration': inCluster('maintenanceConfigurations/{configName}'),
  'containerservice:ManagedCluster': inGroup('Microsoft.ContainerService/managedClusters/{resourceName}'),
  'costmanagement:Budget': '{scope}/providers/Microsoft.CostManagement/budgets/{budgetName}',
  'dashboard:Grafana': inGroup('Microsoft.Dashboard/grafana/{workspaceName}'),
  'dbforpostgresql:AdministratorsMicrosoftEntra': inServer('administrators/{objectId}'),
  'dbforpostgresql:Configuration': inServer('configurations/{configurationName}'),
  'dbforpostgresql:Database': inServer('databases/{databaseName}'),
  'dbforpostgresql:Server': inGroup('Microsoft.DBforPostgreSQL/flexibleServers/{serverName}'),
  'dns:RecordSet': inGroup('Microsoft.Network/dnsZones/{zoneName}/{recordType}/{relativeRecordSetName}'),
  'dns:Zone': inGroup('Microsoft.Network/dnsZones/{zoneName}'),
  'keyvault:Key': inVault('keys/{keyName}'),
  'keyvault:Secret': inVault('secrets/{secretName}'),
  'keyvault:Vault': inGroup('Microsoft.KeyVault/vaults/{vaultName}'),
  'kubernetesconfiguration:Extension': inAnyCluster('extensions/{extensionName}'),
  'kubernetesconfiguration:FluxConfiguration': inAnyCluster('fluxConfigurations/{fluxConfigurationName}'),
  'managedidentity:FederatedIdentityCredential': inGroup(
    'Microsoft.ManagedIdentity/userAssignedIdentities/{resourceName}/federatedIdentityCredentials/{federatedIdentityCredentialResourceName}',
  ),
  'managedidentity:UserAssignedIdentity': inGroup(
    'Microsoft.ManagedIdentity/userAssignedIdentities/{resourceName}',
  ),
  'monitor:ActionGroup': inGroup('Microsoft.Insights/actionGroups/{actionGroupName}'),
  'monitor:ActivityLogAlert': inGroup('Microsoft.Insights/activityLogAlerts/{activityLogAlertName}'),
  'monitor:AzureMonitorWorkspace': inGroup('Microsoft.Monitor/accounts/{azureMonitorWorkspaceName}'),
  'monitor:DataCollectionEndpoint': inGroup(
    'Microsoft.Insights/dataCollectionEndpoints/{dataCollectionEndpointName}',
  ),
  'monitor:DataCollectionRule': inGroup('Microsoft.Insights/dataCollectionRules/{dataCollectionRuleName}'),
  'monitor:DataCollectionRuleAssociation':
    '{resourceUri}/providers/Microsoft.Insights/dataCollectionRuleAssociations/{associationName}',
  'monitor:DiagnosticSetting': '{resourceUri}/providers/Microsoft.Insights/diagnosticSettings/{name}',
  'monitor:MetricAlert': inGroup('Microsoft.Insights/metricAlerts/{ruleName}'),
  'monitor:ScheduledQueryRule': inGroup('Microsoft.Insights/scheduledQueryRules/{ruleName}'),
  'network:NatGateway': inGroup('Microsoft.Network/natGateways/{natGatewayName}'),
  'network:NetworkSecurityGroup': inGroup(
    'Microsoft.Network/networkSecurityGroups/{networkSecurityGroupName}',
  ),
  'network:PrivateDnsZoneGroup': inGroup(
    'Microsoft.Network/privateEndpoints/{privateEndpointName}/privateDnsZoneGroups/{privateDnsZoneGroupName}',
  ),
  'network:PrivateEndpoint': inGroup('Microsoft.Network/privateEndpoints/{privateEndpointName}'),
  'network:PublicIPAddress': inGroup('Microsoft.Network/publicIPAddresses/{publicIpAddressName}'),
  'network:PublicIPPrefix': inGroup('Microsoft.Network/publicIPPrefixes/{publicIpPrefixName}'),
  'network:Subnet': inGroup('Microsoft.Network/virtualNetworks/{virtualNetworkName}/subnets/{subnetName}'),
  'network:VirtualNetworkPeering': inGroup(
    'Microsoft.Network/virtualNetworks/{virtualNetworkName}/virtualNetworkPeerings/{virtualNetworkPeeringName}',
  ),
  'network:VirtualNetwork': inGroup('Microsoft.Network/virtualNetworks/{virtualNetworkName}'),
  'operationalinsights:Workspace': inGroup('Microsoft.OperationalInsights/workspaces/{workspaceName}'),
  'privatedns:PrivateRecordSet': inGroup(
    'Microsoft.Network/privateDnsZones/{privateZoneName}/{recordType}/{relativeRecordSetName}',
  ),
  'privatedns:PrivateZone': inGroup('Microsoft.Network/privateDnsZones/{privateZoneName}'),
  'privatedns:VirtualNetworkLink': inGroup(
    'Microsoft.Network/privateDnsZones/{privateZoneName}/virtualNetworkLinks/{virtualNetworkLinkName}',
  ),
  'resources:ResourceGroup': '/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}',
  'storage:BlobContainer': inAccount('blobServices/default/containers/{containerName}'),
  'storage:BlobServiceProperties': inAccount('blobServices/{blobServicesName}'),
  'storage:ManagementPolicy': inAccount('managementPolicies/{managementPolicyName}'),
  'storage:StorageAccount': inGroup('Microsoft.Storage/storageAccounts/{accountName}'),
}
export const AZURE = 'azure-native:'
export const ADDRESSED_TYPES = Object.keys(ADDRESSES).map((key) => `${AZURE}${key}`)

export const templateOf = (type: string) => ADDRESSES[type.slice(AZURE.length)]
const PARAMETER = /\{(\w+)\}/g

/** The inputs that are part of the address: another value of one is another resource. */
export const pathParametersOf = (type: string): string[] =>
  [...(templateOf(type) ?? '').matchAll(PARAMETER)]
    .map(([, name]) => name ?? '')
    .filter((name) => name !== 'subscriptionId')

export function addressOf(type: string, inputs: Properties, subscriptionId: string): string {
  const values: Properties = { ...(plain(inputs) as Properties), subscriptionId }
  return (templateOf(type) ?? '')
    .replace(PARAMETER, (_, name: string) => String(values[name] ?? ''))
    .replace(/^\/?/, '/')
}

/** Path parameter with the object's name, which the provider generates if the program sets none. */
export const nameParameterOf = (type: string) => pathParametersOf(type).at(-1) ?? ''

/**
 * The resource that must exist before `id`: the scope of an extension resource, the parent of a child, the group of a
 * resource. Undefined for a resource directly below the subscription.
 */
export function parentAddress(id: string): string | undefined {
  const extension = id.toLowerCase().lastIndexOf('/providers/')
  const own = id.slice(extension + '/providers/'.length).split('/')
  if (extension >= 0 && own.length > 3) return id.split('/').slice(0, -2).join('/')
  const scope = extension >= 0 ? id.slice(0, extension) : ''
  return scope.split('/').length > 3 ? scope : undefined
}
