// The resource group of the state: its storage, the key that encrypts its secrets, and the identities of
// workflows.

@description('Name of the environment, for example dev.')
param environmentName string

@description('Azure region of all resources.')
param location string

@description('Microsoft Entra tenant of the subscription.')
param tenantId string

@description('The GitHub repository whose workflows may log in, as owner/repository.')
param repository string

@description('Whether this environment has slices of branches.')
param previews bool

@description('Object ids of the Entra groups whose members run the Pulumi program from their own machines.')
param operators string[]

@description('Whether every address can reach the state and its key.')
param reachedFromAnywhere bool

@description('IPv4 ranges that can reach the state and its key, if not every address can.')
param reachedFrom string[]

@description('Globally unique name of the storage account.')
param storageName string

@description('Globally unique name of the vault.')
param vaultName string

@description('Tags of all resources.')
param tags object

@description('Full id of the role that reads the state.')
param stateReaderId string

@description('Full id of the role that writes the state.')
param stateWriterId string

@description('Full id of the role that encrypts and decrypts with the key.')
param stateSealerId string

// Protects the state against accidental deletion: the lock must be removed first.
resource lock 'Microsoft.Authorization/locks@2020-05-01' = {
  name: 'state-is-not-deleted'
  properties: {
    level: 'CanNotDelete'
    notes: 'Contains the state of the Pulumi stacks.'
  }
}

var ipRules = [for cidr in reachedFrom: { value: cidr }]
var network = {
  bypass: 'None'
  defaultAction: reachedFromAnywhere ? 'Allow' : 'Deny'
  ipRules: ipRules
}

// Deleted state can be restored for this time.
var retention = {
  enabled: true
  days: 30
}

resource storage 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: storageName
  location: location
  kind: 'StorageV2'
  sku: { name: 'Standard_ZRS' }
  tags: tags
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    networkAcls: network
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2024-01-01' = {
  parent: storage
  name: 'default'
  properties: {
    isVersioningEnabled: true
    deleteRetentionPolicy: retention
    containerDeleteRetentionPolicy: retention
  }
}

resource container 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'state'
  properties: {
    publicAccess: 'None'
  }
}

resource vault 'Microsoft.KeyVault/vaults@2024-11-01' = {
  name: vaultName
  location: location
  tags: tags
  properties: {
    tenantId: tenantId
    sku: {
      family: 'A'
      name: 'standard'
    }
    enableRbacAuthorization: true
    enableSoftDelete: true
    softDeleteRetentionInDays: 90
    enablePurgeProtection: true
    publicNetworkAccess: 'enabled'
    networkAcls: network
  }
}

// An existing key is returned unchanged: this never creates a new version of it.
resource key 'Microsoft.KeyVault/vaults/keys@2024-11-01' = {
  parent: vault
  name: 'state'
  properties: {
    kty: 'RSA'
    keySize: 3072
    keyOps: ['encrypt', 'decrypt']
    attributes: {
      exportable: false
    }
  }
}

// The identity for previews can change only blobs of a stack pr-… of the project. Pulumi keeps the state,
// locks, history and backups of a stack under .pulumi/<kind>/…<project>/<stack>.
var previewsOnly = '''
(
  (
    !(ActionMatches{'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write'})
    AND
    !(ActionMatches{'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/add/action'})
    AND
    !(ActionMatches{'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete'})
  )
  OR
  (
    @Resource[Microsoft.Storage/storageAccounts/blobServices/containers/blobs:path]
    StringLike '.pulumi/*/agentweaver/pr-*'
  )
)'''

// One identity for each duty of a workflow. Only jobs of its GitHub environment may log in as it: the
// reviewers and branch rules of the GitHub environment control access. state.bicep relies on the order.
var duties = concat(
  [
    {
      identity: 'agentweaver-${environmentName}-ci-up'
      githubEnvironment: environmentName
      roleOnState: stateWriterId
      condition: null
    }
    {
      identity: 'agentweaver-${environmentName}-ci-plan'
      githubEnvironment: '${environmentName}-plan'
      roleOnState: stateReaderId
      condition: null
    }
  ],
  previews ? [
    {
      identity: 'agentweaver-${environmentName}-ci-preview'
      githubEnvironment: '${environmentName}-preview'
      roleOnState: stateWriterId
      condition: previewsOnly
    }
  ] : []
)

resource identities 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = [
  for duty in duties: {
    name: duty.identity
    location: location
    tags: tags
  }
]

// The issuer of GitHub's tokens for workflows, and the only audience that Azure accepts. Azure refuses
// concurrent writes of credentials on one identity; each identity has one.
resource logins 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = [
  for (duty, i) in duties: {
    parent: identities[i]
    name: 'github'
    properties: {
      issuer: 'https://token.actions.githubusercontent.com'
      subject: 'repo:${repository}:environment:${duty.githubEnvironment}'
      audiences: ['api://AzureADTokenExchange']
    }
  }
]

// The identity for plans reads the state, all other identities write it.
resource access 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (duty, i) in duties: {
    scope: container
    name: guid(container.id, duty.identity, duty.roleOnState)
    properties: {
      principalId: identities[i].properties.principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: duty.roleOnState
      condition: duty.condition
      conditionVersion: duty.condition == null ? null : '2.0'
    }
  }
]

// Every identity decrypts the secrets in the state, because a comparison needs them.
resource sealing 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (duty, i) in duties: {
    scope: key
    name: guid(key.id, duty.identity, stateSealerId)
    properties: {
      principalId: identities[i].properties.principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: stateSealerId
    }
  }
]

resource operatorAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for group in operators: {
    scope: container
    name: guid(container.id, group, stateWriterId)
    properties: {
      principalId: group
      principalType: 'Group'
      roleDefinitionId: stateWriterId
    }
  }
]

resource operatorSealing 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for group in operators: {
    scope: key
    name: guid(key.id, group, stateSealerId)
    properties: {
      principalId: group
      principalType: 'Group'
      roleDefinitionId: stateSealerId
    }
  }
]

// In the order of the duties: up, plan, and preview if there are previews.
output identities array = [
  for (duty, i) in duties: {
    clientId: identities[i].properties.clientId
    principalId: identities[i].properties.principalId
  }
]
