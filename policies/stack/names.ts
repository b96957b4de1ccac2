interface NameLimit {
  /** The input that contains the resource's name. */
  readonly property: string
  readonly min: number
  readonly max: number
  readonly pattern: RegExp
  /** Azure derives the name, so during planning it may be the unknown id of a future principal. */
  readonly isMadeByAzure?: boolean
}

const limit = (property: string, [min, max]: readonly [number, number], pattern: RegExp): NameLimit => ({
  property,
  min,
  max,
  pattern,
})

const ALPHANUMERIC = /^[a-zA-Z0-9]+$/
const HYPHENS = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?$/
/** Letters, digits, `_`, `.` and `-`; the last is a letter, a digit or `_`. */
const NETWORK = /^[a-zA-Z0-9](?:[a-zA-Z0-9_.-]*[a-zA-Z0-9_])?$/
const WORDS = /^[a-zA-Z0-9_()][a-zA-Z0-9_ ().-]*$/
/** Names of alerts: any text without these characters that does not end in a dot or space. */
const TEXT = /^[^:@/#{}%&+*<>?]*[^:@/#{}%&+*<>?. ]$/
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const DOMAIN = /^(?:\*\.)?[a-z0-9_](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9_](?:[a-z0-9-]*[a-z0-9])?)+$/

/**
 * Limits of Azure's names (Microsoft's "Naming rules and restrictions for Azure resources", and for pools and clusters
 * the service's own mappers). A resource type that is not in this list is rejected, because its names cannot be
 * checked.
 */
export const NAME_LIMITS: Readonly<Record<string, NameLimit>> = {
  'alertsmanagement:PrometheusRuleGroup': limit('ruleGroupName', [1, 260], TEXT),
  'authorization:ManagementLockByScope': limit('lockName', [1, 90], WORDS),
  'authorization:RoleAssignment': limit('roleAssignmentName', [36, 36], UUID),
  'authorization:RoleDefinition': limit('roleDefinitionId', [36, 36], UUID),
  'consumption:Budget': limit('budgetName', [1, 63], /^[a-zA-Z0-9_-]+$/),
  'containerregistry:Registry': limit('registryName', [5, 50], ALPHANUMERIC),
  'containerservice:AgentPool': limit('agentPoolName', [1, 12], /^[a-z][a-z0-9]*$/),
  'containerservice:MaintenanceConfiguration': limit('configName', [1, 63], ALPHANUMERIC),
  'containerservice:ManagedCluster': limit(
    'resourceName',
    [1, 63],
    /^[a-zA-Z0-9](?:[a-zA-Z0-9_-]*[a-zA-Z0-9])?$/,
  ),
  'dashboard:Grafana': limit('workspaceName', [2, 23], /^[a-zA-Z](?:-?[a-zA-Z0-9])+$/),
  'dbforpostgresql:AdministratorsMicrosoftEntra': {
    ...limit('objectId', [36, 36], UUID),
    isMadeByAzure: true,
  },
  'dbforpostgresql:Configuration': limit('configurationName', [1, 128], /^[a-z][a-z0-9_.]*$/),
  'dbforpostgresql:Database': limit('databaseName', [1, 63], /^[a-z_][a-z0-9_-]*$/),
  'dbforpostgresql:Server': limit('serverName', [3, 63], /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/),
  'dns:RecordSet': limit('relativeRecordSetName', [1, 253], /^(?:@|\*|(?:\*\.)?[a-z0-9_][a-z0-9_.-]*)$/),
  'dns:Zone': limit('zoneName', [3, 253], DOMAIN),
  'keyvault:Key': limit('keyName', [1, 127], /^[a-zA-Z0-9-]+$/),
  'keyvault:Secret': limit('secretName', [1, 127], /^[a-zA-Z0-9-]+$/),
  'keyvault:Vault': limit('vaultName', [3, 24], /^[a-zA-Z](?:-?[a-zA-Z0-9])+$/),
  'kubernetesconfiguration:Extension': limit('extensionName', [1, 63], /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/),
  'kubernetesconfiguration:FluxConfiguration': limit(
    'fluxConfigurationName',
    [1, 63],
    /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/,
  ),
  'managedidentity:FederatedIdentityCredential': limit(
    'federatedIdentityCredentialResourceName',
    [3, 120],
    /^[a-zA-Z0-9][a-zA-Z0-9_-]*$/,
  ),
  'managedidentity:UserAssignedIdentity': limit('resourceName', [3, 128], /^[a-zA-Z0-9][a-zA-Z0-9_-]*$/),
  'monitor:ActionGroup': limit('actionGroupName', [1, 260], TEXT),
  'monitor:ActivityLogAlert': limit('activityLogAlertName', [1, 260], TEXT),
  'monitor:AzureMonitorWorkspace': limit('azureMonitorWorkspaceName', [4, 63], HYPHENS),
  'monitor:DataCollectionEndpoint': limit('dataCollectionEndpointName', [3, 44], HYPHENS),
  'monitor:DataCollectionRule': limit('dataCollectionRuleName', [3, 64], NETWORK),
  'monitor:DataCollectionRuleAssociation': limit('associationName', [1, 64], NETWORK),
  'monitor:DiagnosticSetting': limit('name', [1, 260], WORDS),
  'monitor:MetricAlert': limit('ruleName', [1, 260], TEXT),
  'monitor:ScheduledQueryRule': limit('ruleName', [1, 260], TEXT),
  'network:NatGateway': limit('natGatewayName', [1, 80], NETWORK),
  'network:NetworkSecurityGroup': limit('networkSecurityGroupName', [1, 80], NETWORK),
  'network:PrivateDnsZoneGroup': limit('privateDnsZoneGroupName', [1, 80], NETWORK),
  'network:PrivateEndpoint': limit('privateEndpointName', [1, 80], NETWORK),
  'network:PublicIPAddress': limit('publicIpAddressName', [1, 80], NETWORK),
  'network:PublicIPPrefix': limit('publicIpPrefixName', [1, 80], NETWORK),
  'network:RouteTable': limit('routeTableName', [1, 80], NETWORK),
  'network:Subnet': limit('subnetName', [1, 80], NETWORK),
  'network:VirtualNetworkPeering': limit('virtualNetworkPeeringName', [1, 80], NETWORK),
  'network:VirtualNetwork': limit('virtualNetworkName', [2, 64], NETWORK),
  'operationalinsights:Workspace': limit('workspaceName', [4, 63], HYPHENS),
  'privatedns:PrivateZone': limit('privateZoneName', [3, 253], DOMAIN),
  'privatedns:VirtualNetworkLink': limit('virtualNetworkLinkName', [1, 80], NETWORK),
  'resources:ResourceGroup': limit('resourceGroupName', [1, 90], /^[a-zA-Z0-9_.()-]*[a-zA-Z0-9_()-]$/),
  'storage:BlobContainer': limit('containerName', [3, 63], /^[a-z0-9](?:-?[a-z0-9])*$/),
  'storage:BlobServiceProperties': limit('blobServicesName', [7, 7], /^default$/),
  'storage:StorageAccount': limit('accountName', [3, 24], /^[a-z0-9]+$/),
}

/** Resource types that do not support tags. */
export const UNTAGGED: readonly string[] = [
  'authorization:ManagementLockByScope',
  'authorization:RoleAssignment',
  'authorization:RoleDefinition',
  'consumption:Budget',
  'containerservice:MaintenanceConfiguration',
  'dbforpostgresql:AdministratorsMicrosoftEntra',
  'dbforpostgresql:Configuration',
  'dbforpostgresql:Database',
  'dns:RecordSet',
  'kubernetesconfiguration:Extension',
  'kubernetesconfiguration:FluxConfiguration',
  'managedidentity:FederatedIdentityCredential',
  'monitor:DataCollectionRuleAssociation',
  'monitor:DiagnosticSetting',
  'network:PrivateDnsZoneGroup',
  'network:Subnet',
  'network:VirtualNetworkPeering',
  'storage:BlobContainer',
  'storage:BlobServiceProperties',
]
