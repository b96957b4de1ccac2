import type { Plan, PlannedResource, PlannedValue } from '../../../contracts/planned-resource.ts'

/** A plan as the engine records it, in which no rule finds anything. */
export function goodPlan(stack = 'prod'): Plan {
  const urn = (type: string, name: string) =>
    `urn:pulumi:${stack}::agentweaver::agentweaver:infra:Platform$${type}::${name}`
  const from = (type: string, name: string): PlannedValue => ({ $unknown: urn(type, name) })
  const tags = {
    env: stack,
    owner: 'platform',
    costCenter: '1234',
    managedBy: 'pulumi',
    ...(stack.startsWith('pr-') && { expires: '2027-01-31T00:00:00Z' }),
  }
  const group = { resourceGroupName: 'agentweaver-x' }
  const here = { ...group, location: 'swedencentral', tags }
  const make = (
    [type, name]: readonly [string, string],
    inputs: { readonly [key: string]: PlannedValue },
    options: Partial<PlannedResource> = {},
  ): PlannedResource => ({
    urn: urn(`azure-native:${type}`, name),
    type: `azure-native:${type}`,
    name,
    custom: true,
    inputs,
    dependencies: [],
    protect: false,
    ignoreChanges: [],
    retainOnDelete: false,
    ...options,
  })
  const CLUSTER = ['containerservice:ManagedCluster', 'cluster'] as const
  const cluster = from('azure-native:containerservice:ManagedCluster', 'cluster')
  const idOf = (type: string, name: string) => from(`azure-native:${type}`, name)
  const credential = (
    name: string,
    [identity, subject]: readonly [string, string],
    after: readonly string[] = [],
  ) =>
    make(
      ['managedidentity:FederatedIdentityCredential', name],
      {
        ...group,
        resourceName: idOf('managedidentity:UserAssignedIdentity', identity),
        federatedIdentityCredentialResourceName: name,
        issuer: cluster,
        subject: `system:serviceaccount:${subject}`,
        audiences: ['api://AzureADTokenExchange'],
      },
      {
        dependencies: after.map((one) =>
          urn('azure-native:managedidentity:FederatedIdentityCredential', one),
        ),
      },
    )
  const identity = (name: string) =>
    make(['managedidentity:UserAssignedIdentity', name], { ...here, resourceName: `agentweaver-x-${name}` })
  const grant = (name: string, role: PlannedValue, inputs: { readonly [key: string]: PlannedValue } = {}) =>
    make(['authorization:RoleAssignment', name], {
      scope: idOf('keyvault:Vault', 'user-tokens'),
      principalId: idOf('managedidentity:UserAssignedIdentity', name.split('-on-')[0] ?? ''),
      principalType: 'ServicePrincipal',
      roleAssignmentName: '3f0c2b9e-6c1d-5a8e-9b8f-1f2e3d4c5b6a',
      roleDefinitionId: role,
      ...inputs,
    })
  const builtIn = (id: string) => `/subscriptions/s/providers/Microsoft.Authorization/roleDefinitions/${id}`
  const pool = (name: string, inputs: { readonly [key: string]: PlannedValue }) =>
    make(
      ['containerservice:AgentPool', name],
      {
        ...group,
        resourceName: cluster,
        agentPoolName: name,
        mode: 'User',
        osSKU: 'AzureLinux',
        vmSize: 'Standard_D8ds_v5',
        enableAutoScaling: true,
        minCount: 1,
        maxCount: 5,
        tags,
        ...inputs,
      },
      { ignoreChanges: ['count'] },
    )
  const window = (configName: string) =>
    make(['containerservice:MaintenanceConfiguration', configName], {
      ...group,
      resourceName: cluster,
      configName,
    })
  const resources = [
    make(['resources:ResourceGroup', 'group'], {
      resourceGroupName: 'agentweaver-x',
      location: 'swedencentral',
      tags,
    }),
    make(
      CLUSTER,
      {
        ...here,
        resourceName: 'agentweaver-x',
        dnsPrefix: 'agentweaver-x',
        nodeResourceGroup: 'agentweaver-x-nodes',
        networkProfile: {
          networkPlugin: 'azure',
          networkPluginMode: 'overlay',
          networkDataplane: 'cilium',
          networkPolicy: 'cilium',
          advancedNetworking: { enabled: true, security: { enabled: true, advancedNetworkPolicies: 'FQDN' } },
        },
        enableRBAC: true,
        disableLocalAccounts: true,
        aadProfile: {
          managed: true,
          enableAzureRBAC: true,
          tenantID: '11111111-2222-3333-4444-555555555555',
        },
        apiServerAccessProfile: {
          disableRunCommand: true,
          authorizedIPRanges: ['203.0.113.0/24', '198.51.100.7'],
        },
        oidcIssuerProfile: { enabled: true },
        securityProfile: {
          workloadIdentity: { enabled: true },
          imageCleaner: { enabled: true, intervalHours: 48 },
        },
        autoUpgradeProfile: { upgradeChannel: 'patch', nodeOSUpgradeChannel: 'NodeImage' },
        autoScalerProfile: { skipNodesWithLocalStorage: 'false' },
        azureMonitorProfile: { metrics: { enabled: true } },
        agentPoolProfiles: [
          {
            name: 'system',
            mode: 'System',
            vmSize: 'Standard_D4ds_v5',
            nodeTaints: ['CriticalAddonsOnly=true:NoSchedule'],
            enableAutoScaling: true,
            minCount: 3,
            maxCount: 5,
            enableNodePublicIP: false,
          },
        ],
      },
      { protect: true, ignoreChanges: ['agentPoolProfiles[0].count'] },
    ),
    window('aksManagedAutoUpgradeSchedule'),
    window('aksManagedNodeOSUpgradeSchedule'),
    pool('app1', {}),
    pool('kata1', {
      workloadRuntime: 'KataVmIsolation',
      nodeTaints: ['sandbox=kata:NoSchedule'],
      nodeLabels: { 'agentweaver.io/kata': 'true' },
      minCount: 0,
    }),
    make(
      ['keyvault:Vault', 'user-tokens'],
      {
        ...here,
        vaultName: 'agentweaver-users-1a2b3',
        properties: {
          enableRbacAuthorization: true,
          enableSoftDelete: true,
          softDeleteRetentionInDays: 90,
          enablePurgeProtection: true,
          networkAcls: { defaultAction: 'Deny', ipRules: [{ value: '203.0.113.0/24' }] },
        },
      },
      { protect: true },
    ),
    make(['containerregistry:Registry', 'registry'], {
      ...here,
      registryName: 'agentweaver1a2b3',
      adminUserEnabled: false,
      anonymousPullEnabled: false,
      sku: { name: 'Premium' },
      policies: { retentionPolicy: { status: 'enabled', days: 30 } },
    }),
    make(
      ['storage:StorageAccount', 'storage'],
      {
        ...here,
        accountName: 'agentweaver1a2b3',
        kind: 'StorageV2',
        minimumTlsVersion: 'TLS1_2',
        allowBlobPublicAccess: false,
        allowSharedKeyAccess: false,
        enableHttpsTrafficOnly: true,
        networkRuleSet: { defaultAction: 'Deny', ipRules: [{ iPAddressOrRange: '203.0.113.7' }] },
      },
      { protect: true },
    ),
    make(
      ['dbforpostgresql:Server', 'database'],
      {
        ...here,
        serverName: 'agentweaver-db-1a2b3',
        authConfig: { passwordAuth: 'Disabled', activeDirectoryAuth: 'Enabled' },
        network: {
          delegatedSubnetResourceId: idOf('network:Subnet', 'database'),
          privateDnsZoneArmResourceId: idOf('privatedns:PrivateZone', 'database'),
          publicNetworkAccess: 'Disabled',
        },
        highAvailability: { mode: 'ZoneRedundant' },
        backup: { backupRetentionDays: 14 },
      },
      { protect: true },
    ),
    identity('agent-host'),
    credential('agent-host', ['agent-host', 'agentweaver-sandboxes:agentweaver-agent-host']),
    credential('agent-host-old', ['agent-host', 'aw-old-sandboxes:aw-old-agent-host'], ['agent-host']),
    make(['authorization:RoleDefinition', 'getter'], {
      roleDefinitionId: '5ab1c2d3-0000-5000-8000-000000000001',
      permissions: [{ actions: [], dataActions: ['Microsoft.KeyVault/vaults/secrets/getSecret/action'] }],
    }),
    make(['authorization:RoleDefinition', 'reader'], {
      roleDefinitionId: '5ab1c2d3-0000-5000-8000-000000000002',
      permissions: [
        { actions: ['Microsoft.Network/*/read', 'Microsoft.Compute/disks/write'], dataActions: [] },
      ],
    }),
    grant('agent-host', idOf('authorization:RoleDefinition', 'getter')),
    grant('agent-host-on-model', builtIn('5e0bd9bd-7b93-4f28-af87-19fc36ad61bd'), {
      scope: '/subscriptions/s/resourceGroups/m/providers/Microsoft.CognitiveServices/accounts/m',
    }),
    identity('api'),
    credential('api', ['api', 'agentweaver:agentweaver-api']),
    grant('api', builtIn('4633458b-17de-408a-b874-0445c86b69e6')),
    grant('api-on-group', builtIn('f58310d9-a9f6-439a-9e8d-f62e7b41a168'), {
      scope: '/subscriptions/s/resourceGroups/x',
      condition:
        '(@Request[Microsoft.Authorization/roleAssignments:RoleDefinitionId] ForAnyOfAnyValues:GuidEquals {7f951dda-4ed3-4680-a7ca-43fe172d538d})',
      conditionVersion: '2.0',
    }),
    make(['monitor:DataCollectionRule', 'metrics'], {
      ...here,
      dataCollectionRuleName: 'agentweaver-metrics',
    }),
    make(['monitor:DataCollectionRuleAssociation', 'metrics'], {
      associationName: 'metrics',
      resourceUri: cluster,
      dataCollectionRuleId: idOf('monitor:DataCollectionRule', 'metrics'),
    }),
    make(['network:NatGateway', 'nat'], { ...here, natGatewayName: 'agentweaver-nat' }),
    make(['consumption:Budget', 'budget'], {
      scope: '/subscriptions/s/resourceGroups/x',
      budgetName: 'agentweaver',
    }),
    make(['keyvault:Secret', 'secret'], {
      ...group,
      tags,
      vaultName: 'agentweaver-users-1a2b3',
      secretName: 'deployment-key',
      properties: { value: { $secret: true } },
    }),
    {
      ...make(['keyvault:Vault', 'component'], {}),
      urn: `urn:pulumi:${stack}::agentweaver::agentweaver:infra:Platform::platform`,
      type: 'agentweaver:infra:Platform',
      custom: false,
    },
  ]
  return { project: 'agentweaver', stack, resources, outputs: { clusterName: 'agentweaver-x' } }
}

/** The good plan with one value of one resource changed, or taken away where no value is given. */
export function changed(
  plan: Plan,
  of: string,
  [path, value]: readonly [string, PlannedValue | undefined],
): Plan {
  const resources = plan.resources.map((resource) => {
    if (`${resource.type.replace('azure-native:', '')} ${resource.name}` !== of) return resource
    const copy = structuredClone(resource) as PlannedResource & { [key: string]: unknown }
    if (path.startsWith('!')) return { ...copy, [path.slice(1)]: value } as PlannedResource
    set(
      copy.inputs as Record<string, unknown>,
      path.split(/[.[\]]+/).filter((key) => key !== ''),
      value,
    )
    return copy
  })
  if (JSON.stringify(resources) === JSON.stringify(plan.resources))
    throw new Error(`${of} ${path} changes nothing`)
  return { ...plan, resources }
}

function set(target: Record<string, unknown>, [key = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length > 0) {
    target[key] ??= {}
    set(target[key] as Record<string, unknown>, rest, value)
  } else if (value === undefined) delete target[key]
  else target[key] = value
}
