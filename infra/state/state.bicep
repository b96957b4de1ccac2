// The deployment that an owner runs once for each environment, on a subscription: the storage of Pulumi's
// state, and the identities that workflows log in as. It contains no secret. Deploying it again changes
// nothing.
targetScope = 'subscription'

import { permissions } from 'permissions.bicep'

@description('Name of the environment, for example dev. It is a part of most names.')
@minLength(2)
@maxLength(8)
param environmentName string

@description('Azure region of all resources.')
param location string

@description('Microsoft Entra tenant of the subscription.')
@minLength(36)
@maxLength(36)
param tenantId string

@description('The GitHub repository whose workflows may log in, as owner/repository.')
@minLength(3)
@maxLength(140)
param repository string

@description('Whether this environment has slices of branches. False in prod: slices run code of branches.')
param previews bool

@description('Object id of the identity that copies images into another environment. Empty: there is none.')
@maxLength(36)
param promotedBy string = ''

@description('Object ids of the Entra groups whose members run the Pulumi program from their own machines.')
@maxLength(5)
param operators string[]

@description('Whether every address can reach the state and its key. A caller also needs the rights.')
param reachedFromAnywhere bool

@description('IPv4 ranges that can reach the state and its key, if not every address can.')
@maxLength(200)
param reachedFrom string[]

@description('Globally unique name of the storage account.')
@minLength(3)
@maxLength(24)
param storageName string

@description('Globally unique name of the vault.')
@minLength(3)
@maxLength(24)
param vaultName string

@description('GUID of the secret getter role, which the Pulumi program finds by this GUID.')
@minLength(36)
@maxLength(36)
param getterRoleGuid string

@description('GUID of the secret writer role, which the Pulumi program finds by this GUID.')
@minLength(36)
@maxLength(36)
param writerRoleGuid string

var subscriptionScope = subscription().id
var stateName = 'agentweaver-state-${environmentName}'
var previewsName = 'agentweaver-${environmentName}-previews'
var tags = {
  env: environmentName
  managedBy: 'infra/state'
  product: 'agentweaver'
}

resource stateGroup 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: stateName
  location: location
  tags: tags
}

// Contains only the identities of slices.
resource previewsGroup 'Microsoft.Resources/resourceGroups@2024-03-01' = if (previews) {
  name: previewsName
  location: location
  tags: tags
}

// Names of roles are unique in a tenant, in which two subscriptions may have an environment of one name.
var roleSuffix = '(${environmentName} ${take(subscription().subscriptionId, 8)})'

resource deployer 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: guid(subscriptionScope, environmentName, 'deployer')
  properties: {
    roleName: 'Agentweaver deployer ${roleSuffix}'
    description: 'Creates and deletes the resources that the infrastructure program declares.'
    type: 'CustomRole'
    permissions: [permissions.deployer]
    assignableScopes: [subscriptionScope]
  }
}

resource planner 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: guid(subscriptionScope, environmentName, 'planner')
  properties: {
    roleName: 'Agentweaver planner ${roleSuffix}'
    description: 'Reads the address of the cluster, to compare the cluster with the program.'
    type: 'CustomRole'
    permissions: [permissions.planner]
    assignableScopes: [subscriptionScope]
  }
}

resource clusterPlanner 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: guid(subscriptionScope, environmentName, 'cluster-planner')
  properties: {
    roleName: 'Agentweaver cluster planner ${roleSuffix}'
    description: 'Reads the objects of the cluster that the program declares, to compare them with it.'
    type: 'CustomRole'
    permissions: [permissions.clusterPlanner]
    assignableScopes: [subscriptionScope]
  }
}

resource stateReader 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: guid(subscriptionScope, environmentName, 'state-reader')
  properties: {
    roleName: 'Agentweaver state reader ${roleSuffix}'
    description: 'Reads the state of stacks.'
    type: 'CustomRole'
    permissions: [permissions.stateReader]
    assignableScopes: [subscriptionScope]
  }
}

resource stateWriter 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: guid(subscriptionScope, environmentName, 'state-writer')
  properties: {
    roleName: 'Agentweaver state writer ${roleSuffix}'
    description: 'Reads and writes the state of stacks.'
    type: 'CustomRole'
    permissions: [permissions.stateWriter]
    assignableScopes: [subscriptionScope]
  }
}

resource stateSealer 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: guid(subscriptionScope, environmentName, 'state-sealer')
  properties: {
    roleName: 'Agentweaver state sealer ${roleSuffix}'
    description: 'Encrypts and decrypts the data keys of Pulumi\'s state.'
    type: 'CustomRole'
    permissions: [permissions.stateSealer]
    assignableScopes: [subscriptionScope]
  }
}

resource secretGetter 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: getterRoleGuid
  properties: {
    roleName: 'Agentweaver secret getter ${roleSuffix}'
    description: 'Reads a secret by its name; cannot list secrets.'
    type: 'CustomRole'
    permissions: [permissions.secretGetter]
    assignableScopes: [subscriptionScope]
  }
}

resource secretWriter 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = {
  name: writerRoleGuid
  properties: {
    roleName: 'Agentweaver secret writer ${roleSuffix}'
    description: 'Writes and deletes secrets; cannot read or list them.'
    type: 'CustomRole'
    permissions: [permissions.secretWriter]
    assignableScopes: [subscriptionScope]
  }
}

resource previewer 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = if (previews) {
  name: guid(subscriptionScope, environmentName, 'previewer')
  properties: {
    roleName: 'Agentweaver previewer ${roleSuffix}'
    description: 'Creates and deletes the identities of preview slices.'
    type: 'CustomRole'
    permissions: [permissions.previewer]
    assignableScopes: [subscriptionScope]
  }
}

resource sliceMaker 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = if (previews) {
  name: guid(subscriptionScope, environmentName, 'slice-maker')
  properties: {
    roleName: 'Agentweaver slice maker ${roleSuffix}'
    description: 'Creates and deletes the namespaces of preview slices and their limits.'
    type: 'CustomRole'
    permissions: [permissions.sliceMaker]
    assignableScopes: [subscriptionScope]
  }
}

resource imageReader 'Microsoft.Authorization/roleDefinitions@2022-05-01-preview' = if (!empty(promotedBy)) {
  name: guid(subscriptionScope, environmentName, 'image-reader')
  properties: {
    roleName: 'Agentweaver image reader ${roleSuffix}'
    description: 'Reads the images of registries, to import them into another subscription.'
    type: 'CustomRole'
    permissions: [permissions.imageReader]
    assignableScopes: [subscriptionScope]
  }
}

// Azure's built-in roles (learn.microsoft.com/azure/role-based-access-control/built-in-roles).
var definitions = 'Microsoft.Authorization/roleDefinitions'
var reader = subscriptionResourceId(definitions, 'acdd72a7-3385-48ef-bd42-f606fba81ae7')
var accessAdministrator = subscriptionResourceId(definitions, 'f58310d9-a9f6-439a-9e8d-f62e7b41a168')
var clusterAdministrator = subscriptionResourceId(definitions, 'b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b')
var clusterReader = subscriptionResourceId(definitions, '7f6c6a51-bcf8-42ba-9220-52d62157d7db')

// The roles that the Pulumi program of a platform grants. The owner of the cluster chooses its
// administrators, so the administrator of the cluster is not among them.
var rolesOfPlatform = [
  '7f951dda-4ed3-4680-a7ca-43fe172d538d' // AcrPull
  '5e0bd9bd-7b93-4f28-af87-19fc36ad61bd' // Cognitive Services OpenAI User
  'befefa01-2a29-4197-83a8-272ff33ce314' // DNS Zone Contributor
  '4633458b-17de-408a-b874-0445c86b69e6' // Key Vault Secrets User
  'f1a07417-d97a-45cb-824c-7a7467783830' // Managed Identity Operator
  'b0d8363b-8ddd-447d-831f-62ca05bff136' // Monitoring Data Reader
  '4d97b98b-1d4f-4787-a291-c67834d212e7' // Network Contributor
  getterRoleGuid
  writerRoleGuid
]

// The roles of a slice's identities: the secrets of their own deployment, and no rights in the cluster.
var rolesOfSlice = [
  '4633458b-17de-408a-b874-0445c86b69e6' // Key Vault Secrets User
  getterRoleGuid
  writerRoleGuid
]

// Allows only these roles, and only for these types of principals, both when a role is granted and when it is
// removed. No list contains persons. The form follows Azure's page of delegation examples.
var grantCondition = '''
(
  (
    !(ActionMatches{'Microsoft.Authorization/roleAssignments/write'})
  )
  OR
  (
    @Request[Microsoft.Authorization/roleAssignments:RoleDefinitionId]
    ForAnyOfAnyValues:GuidEquals {ROLES}
    AND
    @Request[Microsoft.Authorization/roleAssignments:PrincipalType]
    ForAnyOfAnyValues:StringEqualsIgnoreCase {TYPES}
  )
)
AND
(
  (
    !(ActionMatches{'Microsoft.Authorization/roleAssignments/delete'})
  )
  OR
  (
    @Resource[Microsoft.Authorization/roleAssignments:RoleDefinitionId]
    ForAnyOfAnyValues:GuidEquals {ROLES}
    AND
    @Resource[Microsoft.Authorization/roleAssignments:PrincipalType]
    ForAnyOfAnyValues:StringEqualsIgnoreCase {TYPES}
  )
)'''
var onlyRolesOfPlatform = replace(grantCondition, 'ROLES', join(rolesOfPlatform, ', '))
var onlyRolesOfSlice = replace(grantCondition, 'ROLES', join(rolesOfSlice, ', '))

module store 'store.bicep' = {
  name: stateName
  scope: stateGroup
  params: {
    environmentName: environmentName
    location: location
    tenantId: tenantId
    repository: repository
    previews: previews
    operators: operators
    reachedFromAnywhere: reachedFromAnywhere
    reachedFrom: reachedFrom
    storageName: storageName
    vaultName: vaultName
    tags: tags
    stateReaderId: stateReader.id
    stateWriterId: stateWriter.id
    stateSealerId: stateSealer.id
  }
}

// The identity that deploys. It administers the cluster, because the program creates custom resource
// definitions and the controller in it.
var rightsOfUp = [
  { role: deployer.id, condition: null }
  {
    role: accessAdministrator
    condition: replace(onlyRolesOfPlatform, 'TYPES', '\'ServicePrincipal\', \'Group\'')
  }
  { role: clusterAdministrator, condition: null }
]

resource up 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for right in rightsOfUp: {
    name: guid(subscriptionScope, environmentName, 'up', right.role)
    properties: {
      principalId: store.outputs.identities[0].principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: right.role
      condition: right.condition
      conditionVersion: right.condition == null ? null : '2.0'
    }
  }
]

// The identity that compares. It reads Azure and the cluster.
var rightsOfPlan = [reader, planner.id, clusterReader, clusterPlanner.id]

resource plan 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in rightsOfPlan: {
    name: guid(subscriptionScope, environmentName, 'plan', role)
    properties: {
      principalId: store.outputs.identities[1].principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: role
    }
  }
]

// The identity that creates slices of branches.
var rightsOfPreview = previews ? [
  { role: reader, condition: null }
  { role: planner.id, condition: null }
  {
    role: accessAdministrator
    condition: replace(onlyRolesOfSlice, 'TYPES', '\'ServicePrincipal\'')
  }
  { role: sliceMaker.id, condition: null }
] : []

resource preview 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for right in rightsOfPreview: {
    name: guid(subscriptionScope, environmentName, 'preview', right.role)
    properties: {
      principalId: store.outputs.identities[2].principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: right.role
      condition: right.condition
      conditionVersion: right.condition == null ? null : '2.0'
    }
  }
]

module previewInGroup 'previewer.bicep' = if (previews) {
  name: previewsName
  scope: resourceGroup(previewsName)
  params: {
    identityName: 'agentweaver-${environmentName}-ci-preview'
    identityGroup: stateName
    roleDefinitionId: previewer.id
  }
  // The module finds the group and the identity by name, which Bicep does not see.
  dependsOn: [previewsGroup, store]
}

// An identity of another environment, which reads the images here. The registry does not exist yet, so the
// right covers all registries of the subscription.
resource promoter 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(promotedBy)) {
  name: guid(subscriptionScope, environmentName, 'promoter', promotedBy)
  properties: {
    principalId: promotedBy
    principalType: 'ServicePrincipal'
    roleDefinitionId: imageReader.id
  }
}

// The variables of the GitHub environments. None of them is secret.
output backendUrl string = 'azblob://state?storage_account=${storageName}'
output secretsProvider string = 'azurekeyvault://${vaultName}${environment().suffixes.keyvaultDns}/keys/state'
output upClientId string = store.outputs.identities[0].clientId
output upPrincipalId string = store.outputs.identities[0].principalId
output planClientId string = store.outputs.identities[1].clientId
output previewClientId string = previews ? store.outputs.identities[2].clientId : ''
