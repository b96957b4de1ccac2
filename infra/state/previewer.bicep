// The right of the identity for previews in the resource group of slices. It is a module because Bicep
// deploys to another resource group only through a module.

@description('Name of the identity.')
param identityName string

@description('Name of the resource group of the identity.')
param identityGroup string

@description('Full id of the role.')
param roleDefinitionId string

// Looked up here, so that all parameters are known when the deployment starts. Otherwise what-if may skip the
// module.
resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' existing = {
  scope: resourceGroup(identityGroup)
  name: identityName
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(resourceGroup().id, identityName, roleDefinitionId)
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: roleDefinitionId
  }
}
