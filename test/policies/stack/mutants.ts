import type { PlannedValue } from '../../../contracts/planned-resource.ts'

/** One weakening of the engine's requests for a valid stack. Exactly one rule must report it. */
export interface Mutant {
  readonly rule: string
  /** Type without its provider, and name. */
  readonly of: string
  /** Input, or `!option`. */
  readonly path: string
  /** The new value; undefined removes the property. */
  readonly value?: PlannedValue
  /** Expected text of the message, in addition to the path. */
  readonly says: RegExp
  /** Which of the recorded runs, all of them of new stacks. */
  readonly run: Run
  /** Whether an unknown value is accepted in this place if it comes from the expected resource. */
  readonly mayBeUnknown?: true
}

const UNKNOWN_ELSEWHERE = {
  $unknown: 'urn:pulumi:prod::agentweaver::azure-native:network:VirtualNetwork::net#id',
}

export type Run = 'prod' | 'dev' | 'slice' | 'others'

type Weakening = readonly [rule: string, path: string, value: PlannedValue | undefined, says: RegExp]

const on =
  (of: string, run: Run = 'prod') =>
  (...[rule, path, value, says]: Weakening): Mutant => ({
    rule,
    of,
    path,
    ...(value !== undefined && { value }),
    says,
    run,
  })
const kata = on('containerservice:AgentPool agentweaver-prod-kata1')
const cluster = on('containerservice:ManagedCluster agentweaver-prod')
const open = on('containerservice:ManagedCluster agentweaver-dev', 'dev')
const vault = on('keyvault:Vault agentweaver-prod-user-token-vault')
const registry = on('containerregistry:Registry agentweaver-prod')
const storage = on('storage:StorageAccount storage', 'others')
const database = on('dbforpostgresql:Server agentweaver-prod')
const credential = on('managedidentity:FederatedIdentityCredential agentweaver-prod-api-agentweaver')
const second = on('managedidentity:FederatedIdentityCredential agent-host-old', 'others')
const wide = on('authorization:RoleAssignment api-on-group', 'others')
const sandboxGrant = on('authorization:RoleAssignment agent-host', 'others')
const own = on('authorization:RoleDefinition getter', 'others')
const reader = on('authorization:RoleDefinition reader', 'others')
const sliced = on('managedidentity:UserAssignedIdentity agentweaver-dev-pr-example-50d858-api', 'slice')
const trusted = on('managedidentity:FederatedIdentityCredential agent-host', 'others')
const builtIn = (guid: string) => `/subscriptions/s/providers/Microsoft.Authorization/roleDefinitions/${guid}`
/** It lists secrets too. */
const SECRETS_USER = builtIn('4633458b-17de-408a-b874-0445c86b69e6')
/** It calls models, which the identity of the egress proxy does for sandboxes. */
const MODEL_USER = builtIn('5e0bd9bd-7b93-4f28-af87-19fc36ad61bd')
const VAULT_CONTRIBUTOR = builtIn('f25e0fa2-a7c8-4377-a976-54943a77a395')
const OFFICER = builtIn('b86a8fe4-44ce-4948-aee5-eccb2c155cd7')

export const MUTANTS: readonly Mutant[] = [
  kata('kata-os', 'osSKU', 'Ubuntu', /is "Ubuntu": set it to "AzureLinux" or "AzureLinux3"/),
  kata('kata-os', 'osSKU', undefined, /is not set: set it to "AzureLinux"/),
  kata('kata-sku', 'vmSize', 'Standard_D8as_v5', /use an Intel D or E size/),
  kata('kata-sku', 'vmSize', undefined, /is not set: use an Intel D or E size/),
  kata('kata-incompat', 'enableFIPS', true, /leave it out or set it to false/),
  kata('kata-incompat', 'securityProfile', { enableSecureBoot: true }, /enableSecureBoot is true/),
  kata('kata-incompat', 'securityProfile', { enableVTPM: true }, /enableVTPM is true/),
  kata(
    'kata-incompat',
    'artifactStreamingProfile',
    { enabled: true },
    /artifactStreamingProfile\.enabled is true/,
  ),
  kata('kata-taint', 'nodeTaints', ['other=x:NoSchedule'], /add "sandbox=kata:NoSchedule"/),
  kata('kata-taint', 'nodeTaints', ['sandbox=kata:PreferNoSchedule'], /add "sandbox=kata:NoSchedule"/),
  kata(
    'kata-taint',
    'nodeLabels',
    { 'agentweaver.io/kata': 'false' },
    /lacks "agentweaver.io\/kata": "true"/,
  ),
  kata('kata-taint', 'mode', 'System', /set it to "User"/),
  kata('kata-taint', 'maxCount', 500, /set it to 1 to 100/),
  kata(
    'kata-taint',
    'workloadRuntime',
    undefined,
    /set it to "KataVmIsolation", because the pool has the taint or label/,
  ),
  kata('kata-taint', 'workloadRuntime', 'OCIContainer', /set it to "KataVmIsolation"/),
  kata(
    'no-legacy-runtime',
    'workloadRuntime',
    'KataMshvVmIsolation',
    /set it to "KataVmIsolation" or "OCIContainer" or nothing/,
  ),
  {
    ...kata('no-legacy-runtime', 'workloadRuntime', 'WasmWasi', /set it to/),
    of: 'containerservice:AgentPool agentweaver-prod-app1',
  },

  cluster('cluster-network', 'networkProfile.networkPlugin', 'kubenet', /set it to "azure"/),
  cluster('cluster-network', 'networkProfile.networkPluginMode', undefined, /set it to "overlay"/),
  cluster('cluster-network', 'networkProfile.networkDataplane', 'azure', /set it to "cilium"/),
  cluster('cluster-network', 'networkProfile.networkPolicy', 'calico', /set it to "cilium"/),
  cluster('acns-fqdn', 'networkProfile.advancedNetworking.enabled', false, /set it to true/),
  cluster('acns-fqdn', 'networkProfile.advancedNetworking.security.enabled', undefined, /set it to true/),
  cluster(
    'acns-fqdn',
    'networkProfile.advancedNetworking.security.advancedNetworkPolicies',
    'None',
    /set it to "FQDN" or "L7"/,
  ),
  cluster('acns-fqdn', 'tags.egress', 'open', /set it to "fqdn" or "proxy" or "closed" or nothing/),
  cluster('local-accounts', 'disableLocalAccounts', false, /set it to true/),
  cluster('local-accounts', 'aadProfile.managed', undefined, /set it to true/),
  cluster('local-accounts', 'aadProfile.enableAzureRBAC', false, /set it to true/),
  cluster('local-accounts', 'aadProfile.tenantID', 'here', /set it to the id of the tenant/),
  cluster('local-accounts', 'enableRBAC', false, /leave it out or set it to true/),
  cluster('api-exposure', 'apiServerAccessProfile.disableRunCommand', false, /set it to true/),
  open('api-exposure', 'apiServerAccessProfile.authorizedIPRanges', [], /or make it private/),
  open('api-exposure', 'apiServerAccessProfile.authorizedIPRanges', ['0.0.0.0/0'], /none wider than \/8/),
  open(
    'api-exposure',
    'apiServerAccessProfile.authorizedIPRanges',
    ['0.0.0.0/1', '128.0.0.0/1'],
    /none wider/,
  ),
  open('api-exposure', 'apiServerAccessProfile.authorizedIPRanges', ['203.0.113.0/'], /none wider/),
  cluster('oidc-wi', 'oidcIssuerProfile.enabled', false, /set it to true/),
  cluster('oidc-wi', 'securityProfile.workloadIdentity', undefined, /workloadIdentity\.enabled is not set/),
  cluster('system-pool', 'agentPoolProfiles[0].nodeTaints', [], /add "CriticalAddonsOnly=true:NoSchedule"/),
  cluster('system-pool', 'agentPoolProfiles[0].vmSize', 'Standard_B4ms', /no burstable size/),
  cluster('system-pool', 'agentPoolProfiles[0].vmSize', 'Standard_D2ds_v5', /at least 4 vCPUs/),
  cluster('system-pool', 'agentPoolProfiles[0].minCount', 2, /set it to 3 or more/),
  on('containerservice:ManagedCluster agentweaver-dev', 'dev')(
    'system-pool',
    'agentPoolProfiles[0].minCount',
    1,
    /set it to 2 or more/,
  ),
  cluster(
    'system-pool',
    'agentPoolProfiles[0].mode',
    'User',
    /set it to "System", and create other pools as separate resources/,
  ),
  cluster(
    'node-public-ip',
    'agentPoolProfiles[0].enableNodePublicIP',
    true,
    /leave it out or set it to false/,
  ),
  kata('node-public-ip', 'enableNodePublicIP', true, /leave it out or set it to false/),
  cluster('image-cleaner', 'securityProfile.imageCleaner.enabled', false, /set it to true/),
  cluster('image-cleaner', 'securityProfile.imageCleaner.intervalHours', 12, /set it to 24 to 2160/),
  cluster('upgrades', 'autoUpgradeProfile.upgradeChannel', 'rapid', /set it to "patch" or "stable"/),
  cluster(
    'upgrades',
    'autoUpgradeProfile.nodeOSUpgradeChannel',
    'Unmanaged',
    /set it to "SecurityPatch" or "NodeImage"/,
  ),
  {
    ...on('containerservice:MaintenanceConfiguration agentweaver-prod-aksManagedNodeOSUpgradeSchedule')(
      'upgrades',
      'configName',
      'default',
      /has no MaintenanceConfiguration "aksManagedNodeOSUpgradeSchedule"/,
    ),
  },
  kata('gc-sshaccess', 'securityProfile', { sshAccess: 'Disabled' }, /rejected by Azure at this API version/),
  cluster(
    'gc-sshaccess',
    'agentPoolProfiles[0].securityProfile',
    { sshAccess: 'LocalUser' },
    /rejected by Azure/,
  ),
  kata('autoscale', 'enableAutoScaling', false, /set it to true/),
  kata('autoscale', '!ignoreChanges', [], /does not ignore changes of count/),
  cluster('autoscale', '!ignoreChanges', [], /does not ignore changes of agentPoolProfiles\[0\]\.count/),
  {
    ...kata('autoscale', 'maxCount', 0, /set it to 3 to 1000/),
    of: 'containerservice:AgentPool agentweaver-prod-app1',
  },
  {
    ...kata('autoscale', 'minCount', undefined, /set it to 0 to 1000/),
    of: 'containerservice:AgentPool agentweaver-prod-app1',
  },
  cluster('skip-local-storage', 'autoScalerProfile.skipNodesWithLocalStorage', 'true', /set it to "false"/),
  cluster('skip-local-storage', 'autoScalerProfile', undefined, /set it to "false"/),

  vault('kv-rbac', 'properties.enableRbacAuthorization', false, /set it to true/),
  vault('kv-purge-protection', 'properties.enablePurgeProtection', undefined, /set it to true/),
  vault('kv-purge-protection', 'properties.enableSoftDelete', false, /leave it out or set it to true/),
  vault('kv-purge-protection', 'properties.softDeleteRetentionInDays', 1, /set it to 7 to 90/),
  vault('kv-network-deny', 'properties.networkAcls.defaultAction', 'Allow', /set it to "Deny"/),
  vault('kv-network-deny', 'properties.networkAcls', undefined, /set it to "Deny"/),
  vault('kv-network-deny', 'properties.networkAcls.ipRules', [{ value: '0.0.0.0/0' }], /a \/8 or narrower/),
  vault(
    'kv-no-access-policies',
    'properties.enabledForTemplateDeployment',
    true,
    /leave it out or set it to false/,
  ),
  vault('kv-no-access-policies', 'properties.enabledForDeployment', true, /leave it out or set it to false/),
  vault(
    'kv-no-access-policies',
    'properties.accessPolicies',
    [{ objectId: 'x' }],
    /leave it out: use role assignments/,
  ),
  registry('acr-closed', 'adminUserEnabled', true, /set it to false/),
  registry('acr-closed', 'adminUserEnabled', undefined, /set it to false/),
  registry('acr-closed', 'anonymousPullEnabled', true, /leave it out or set it to false/),
  registry(
    'acr-closed',
    'policies.softDeletePolicy',
    { status: 'enabled' },
    /cannot be combined with retention/,
  ),
  registry('acr-premium', 'sku.name', 'Standard', /set it to "Premium"/),
  registry('acr-premium', 'policies', undefined, /set it to "enabled"/),
  storage('storage', 'minimumTlsVersion', 'TLS1_0', /set it to "TLS1_2" or "TLS1_3"/),
  storage('storage', 'allowBlobPublicAccess', undefined, /set it to false/),
  storage('storage', 'allowSharedKeyAccess', true, /set it to false/),
  storage('storage', 'enableHttpsTrafficOnly', false, /leave it out or set it to true/),
  storage('storage', 'networkRuleSet.defaultAction', 'Allow', /set it to "Deny"/),
  storage('storage', 'networkRuleSet.ipRules', [{ iPAddressOrRange: '0.0.0.0/1' }], /a \/8 or narrower/),
  database('pg-auth', 'authConfig.passwordAuth', 'Enabled', /set it to "Disabled"/),
  database('pg-auth', 'authConfig.activeDirectoryAuth', undefined, /set it to "Enabled"/),
  {
    ...database('pg-private', 'network.delegatedSubnetResourceId', undefined, /is not set: use a subnet/),
    mayBeUnknown: true,
  },
  {
    ...database('pg-private', 'network.delegatedSubnetResourceId', '', /is not set: use a subnet/),
    mayBeUnknown: true,
  },
  {
    ...database(
      'pg-private',
      'network.privateDnsZoneArmResourceId',
      undefined,
      /is not set: use a private DNS zone/,
    ),
    mayBeUnknown: true,
  },
  database('pg-private', 'network.publicNetworkAccess', 'Enabled', /set it to "Disabled" or nothing/),
  database('pg-prod', 'highAvailability.mode', 'SameZone', /set it to "ZoneRedundant"/),
  database('pg-prod', 'backup.backupRetentionDays', 7, /set it to 14 to 35/),

  wide(
    'rbac-scope',
    'condition',
    undefined,
    /Role Based Access Control Administrator at this scope needs a condition/,
  ),
  wide('rbac-scope', 'condition', 'true', /needs a condition on the request/),
  wide('rbac-scope', 'conditionVersion', '1.0', /set it to "2.0"/),
  { ...wide('rbac-scope', 'roleDefinitionId', 'Owner', /does not name a role/), mayBeUnknown: true },
  reader(
    'rbac-scope',
    'permissions[0].actions',
    ['Microsoft.Authorization/roleAssignments/write'],
    /without actions that assign roles/,
  ),
  reader(
    'rbac-scope',
    'permissions[0].actions',
    ['Microsoft.Authorization/x\n/write'],
    /without actions that assign roles/,
  ),
  reader('rbac-scope', 'permissions[0].actions', ['*'], /list actions by name/),
  reader(
    'rbac-scope',
    'permissions[0].dataActions',
    ['Microsoft.KeyVault/vaults/secrets/*'],
    /list actions by name/,
  ),
  wide('rbac-shape', 'principalType', undefined, /set it to "ServicePrincipal"/),
  wide('rbac-shape', 'roleAssignmentName', '3f0c2b9e-6c1d-4a8e-9b8f-1f2e3d4c5b6a', /create a version 5 UUID/),
  {
    ...sandboxGrant(
      'rbac-split',
      'roleDefinitionId',
      OFFICER,
      /gives system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host a role/,
    ),
    mayBeUnknown: true,
  },
  {
    ...sandboxGrant(
      'rbac-split',
      'roleDefinitionId',
      VAULT_CONTRIBUTOR,
      /sandboxes may read a secret by its name/,
    ),
    mayBeUnknown: true,
  },
  { ...sandboxGrant('rbac-split', 'roleDefinitionId', SECRETS_USER, /nothing else/), mayBeUnknown: true },
  { ...sandboxGrant('rbac-split', 'roleDefinitionId', MODEL_USER, /nothing else/), mayBeUnknown: true },
  own(
    'rbac-split',
    'permissions[0].dataActions',
    ['Microsoft.KeyVault/vaults/secrets/setSecret/action'],
    /setSecret/,
  ),
  own(
    'rbac-split',
    'permissions[0].actions',
    ['Microsoft.Storage/storageAccounts/read'],
    /Microsoft\.Storage/,
  ),
  trusted('fic-shape', 'subject', 'system:serviceaccount:*:agentweaver-api', /without wildcards/),
  credential('fic-shape', 'audiences', ['api://AzureADTokenExchange', 'other'], /set it to \["api/),
  {
    ...credential('fic-shape', 'issuer', 'http://issuer/', /use the cluster's oidcIssuerProfile/),
    mayBeUnknown: true,
  },
  { ...credential('fic-shape', 'issuer', '', /oidcIssuerProfile/), mayBeUnknown: true },
  {
    ...credential('fic-shape', 'issuer', UNKNOWN_ELSEWHERE, /does not come from a cluster of this plan/),
    mayBeUnknown: true,
  },
  second(
    'fic-serial',
    '!dependencies',
    [],
    /may be created at the same time as agent-host: make one depend on the other/,
  ),

  vault('protect-stateful', '!protect', false, /set the option protect/),
  cluster('protect-stateful', '!protect', false, /set the option protect/),
  storage('protect-stateful', '!protect', false, /set the option protect/),
  database('protect-stateful', '!protect', false, /set the option protect/),
  registry('tags', 'tags.costCenter', undefined, /set it/),
  registry('tags', 'tags.owner', ' ', /set it/),
  sliced('tags', 'tags.expires', undefined, /the end of the preview/),
  sliced('tags', 'tags.expires', 'soon', /the end of the preview/),
  registry('regions', 'location', 'moon', /use a region of the list/),
  kata('names', 'agentPoolName', 'kata-1', /1 to 12 characters/),
  vault('names', 'vaultName', 'agentweaver-users--1a2b3', /3 to 24 characters/),
  vault('names', 'vaultName', 'agentweaver-user-tokens-1a2b3', /3 to 24 characters/),
  storage('names', 'accountName', undefined, /is not set: give it a name/),
  cluster('names', 'nodeResourceGroup', undefined, /1 to 80 characters/),
  cluster('names', 'dnsPrefix', 'x'.repeat(55), /1 to 54 characters/),
  on('consumption:Budget agentweaver-prod')('budget', '!type', 'agentweaver:infra:Nothing', /has 0 budgets/),
  kata(
    'no-preview-api',
    '!type',
    'azure-native_containerservice_v20260502preview:containerservice:AgentPool',
    /a preview/,
  ),
  on('keyvault:Secret secret', 'others')(
    'secrets',
    'properties.value',
    'hunter2',
    /wrap it in pulumi\.secret/,
  ),
  on('keyvault:Secret secret', 'others')(
    'secrets',
    'properties.value',
    { $unknown: '' },
    /wrap it in pulumi\.secret/,
  ),
  database(
    'secrets',
    'administratorLoginPassword',
    'hunter2',
    /administratorLoginPassword is not marked secret/,
  ),
  on('containerservice:AgentPool agentweaver-dev-kata1', 'dev')(
    'cost',
    'vmSize',
    'Standard_D64ds_v5',
    /at most 16 vCPUs/,
  ),
  on('monitor:DataCollectionRuleAssociation agentweaver-prod-dcra')(
    'metrics-wired',
    'resourceUri',
    '/subscriptions/s/other',
    /collects nothing/,
  ),
  {
    ...on('monitor:DataCollectionRuleAssociation agentweaver-prod-dcra')(
      'metrics-wired',
      'dataCollectionRuleId',
      undefined,
      /collects nothing/,
    ),
    mayBeUnknown: true,
  },
]
