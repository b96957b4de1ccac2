// What each custom role may do. state.bicep creates and assigns the roles.

@export()
var permissions = {
  // Writes the resources of a platform. To grant roles, an identity needs a second role, with a condition.
  deployer: {
    actions: [
      'Microsoft.AlertsManagement/prometheusRuleGroups/delete'
      'Microsoft.AlertsManagement/prometheusRuleGroups/read'
      'Microsoft.AlertsManagement/prometheusRuleGroups/write'
      'Microsoft.Authorization/roleDefinitions/read'
      'Microsoft.Consumption/budgets/delete'
      'Microsoft.Consumption/budgets/read'
      'Microsoft.Consumption/budgets/write'
      'Microsoft.ContainerRegistry/registries/delete'
      'Microsoft.ContainerRegistry/registries/importImage/action'
      'Microsoft.ContainerRegistry/registries/privateEndpointConnectionsApproval/action'
      'Microsoft.ContainerRegistry/registries/read'
      'Microsoft.ContainerRegistry/registries/write'
      'Microsoft.ContainerService/locations/operationresults/read'
      'Microsoft.ContainerService/locations/operations/read'
      'Microsoft.ContainerService/managedClusters/agentPools/delete'
      'Microsoft.ContainerService/managedClusters/agentPools/read'
      'Microsoft.ContainerService/managedClusters/agentPools/upgradeNodeImageVersion/action'
      'Microsoft.ContainerService/managedClusters/agentPools/write'
      'Microsoft.ContainerService/managedClusters/delete'
      'Microsoft.ContainerService/managedClusters/listClusterUserCredential/action'
      'Microsoft.ContainerService/managedClusters/maintenanceConfigurations/delete'
      'Microsoft.ContainerService/managedClusters/maintenanceConfigurations/read'
      'Microsoft.ContainerService/managedClusters/maintenanceConfigurations/write'
      'Microsoft.ContainerService/managedClusters/read'
      'Microsoft.ContainerService/managedClusters/write'
      'Microsoft.DBforPostgreSQL/flexibleServers/administrators/delete'
      'Microsoft.DBforPostgreSQL/flexibleServers/administrators/read'
      'Microsoft.DBforPostgreSQL/flexibleServers/administrators/write'
      'Microsoft.DBforPostgreSQL/flexibleServers/configurations/delete'
      'Microsoft.DBforPostgreSQL/flexibleServers/configurations/read'
      'Microsoft.DBforPostgreSQL/flexibleServers/configurations/write'
      'Microsoft.DBforPostgreSQL/flexibleServers/databases/delete'
      'Microsoft.DBforPostgreSQL/flexibleServers/databases/read'
      'Microsoft.DBforPostgreSQL/flexibleServers/databases/write'
      'Microsoft.DBforPostgreSQL/flexibleServers/delete'
      'Microsoft.DBforPostgreSQL/flexibleServers/read'
      'Microsoft.DBforPostgreSQL/flexibleServers/write'
      'Microsoft.DBforPostgreSQL/locations/*/read'
      'Microsoft.Dashboard/grafana/delete'
      'Microsoft.Dashboard/grafana/read'
      'Microsoft.Dashboard/grafana/write'
      'Microsoft.Features/providers/features/read'
      'Microsoft.Insights/actionGroups/delete'
      'Microsoft.Insights/actionGroups/read'
      'Microsoft.Insights/actionGroups/write'
      'Microsoft.Insights/dataCollectionEndpoints/*/read'
      'Microsoft.Insights/dataCollectionEndpoints/delete'
      'Microsoft.Insights/dataCollectionEndpoints/read'
      'Microsoft.Insights/dataCollectionEndpoints/write'
      'Microsoft.Insights/dataCollectionRuleAssociations/delete'
      'Microsoft.Insights/dataCollectionRuleAssociations/read'
      'Microsoft.Insights/dataCollectionRuleAssociations/write'
      'Microsoft.Insights/dataCollectionRules/delete'
      'Microsoft.Insights/dataCollectionRules/read'
      'Microsoft.Insights/dataCollectionRules/write'
      'Microsoft.Insights/diagnosticSettings/delete'
      'Microsoft.Insights/diagnosticSettings/read'
      'Microsoft.Insights/diagnosticSettings/write'
      'Microsoft.KeyVault/locations/deletedVaults/read'
      'Microsoft.KeyVault/locations/operationResults/read'
      'Microsoft.KeyVault/vaults/delete'
      'Microsoft.KeyVault/vaults/privateEndpointConnectionsApproval/action'
      'Microsoft.KeyVault/vaults/read'
      'Microsoft.KeyVault/vaults/write'
      'Microsoft.KubernetesConfiguration/extensions/delete'
      'Microsoft.KubernetesConfiguration/extensions/read'
      'Microsoft.KubernetesConfiguration/extensions/write'
      'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action'
      'Microsoft.ManagedIdentity/userAssignedIdentities/delete'
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/delete'
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/read'
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/write'
      'Microsoft.ManagedIdentity/userAssignedIdentities/read'
      'Microsoft.ManagedIdentity/userAssignedIdentities/write'
      'Microsoft.Monitor/accounts/*/read'
      'Microsoft.Monitor/accounts/delete'
      'Microsoft.Monitor/accounts/read'
      'Microsoft.Monitor/accounts/write'
      'Microsoft.Network/dnsZones/delete'
      'Microsoft.Network/dnsZones/read'
      'Microsoft.Network/dnsZones/write'
      'Microsoft.Network/locations/operationResults/read'
      'Microsoft.Network/locations/operations/read'
      'Microsoft.Network/natGateways/delete'
      'Microsoft.Network/natGateways/join/action'
      'Microsoft.Network/natGateways/read'
      'Microsoft.Network/natGateways/write'
      'Microsoft.Network/networkSecurityGroups/delete'
      'Microsoft.Network/networkSecurityGroups/join/action'
      'Microsoft.Network/networkSecurityGroups/read'
      'Microsoft.Network/networkSecurityGroups/write'
      'Microsoft.Network/privateDnsZones/delete'
      'Microsoft.Network/privateDnsZones/join/action'
      'Microsoft.Network/privateDnsZones/read'
      'Microsoft.Network/privateDnsZones/virtualNetworkLinks/delete'
      'Microsoft.Network/privateDnsZones/virtualNetworkLinks/read'
      'Microsoft.Network/privateDnsZones/virtualNetworkLinks/write'
      'Microsoft.Network/privateDnsZones/write'
      'Microsoft.Network/privateEndpoints/delete'
      'Microsoft.Network/privateEndpoints/privateDnsZoneGroups/delete'
      'Microsoft.Network/privateEndpoints/privateDnsZoneGroups/read'
      'Microsoft.Network/privateEndpoints/privateDnsZoneGroups/write'
      'Microsoft.Network/privateEndpoints/read'
      'Microsoft.Network/privateEndpoints/write'
      'Microsoft.Network/publicIPAddresses/delete'
      'Microsoft.Network/publicIPAddresses/join/action'
      'Microsoft.Network/publicIPAddresses/read'
      'Microsoft.Network/publicIPAddresses/write'
      'Microsoft.Network/virtualNetworks/delete'
      'Microsoft.Network/virtualNetworks/join/action'
      'Microsoft.Network/virtualNetworks/peer/action'
      'Microsoft.Network/virtualNetworks/read'
      'Microsoft.Network/virtualNetworks/subnets/delete'
      'Microsoft.Network/virtualNetworks/subnets/join/action'
      'Microsoft.Network/virtualNetworks/subnets/joinViaServiceEndpoint/action'
      'Microsoft.Network/virtualNetworks/subnets/read'
      'Microsoft.Network/virtualNetworks/subnets/write'
      'Microsoft.Network/virtualNetworks/virtualNetworkPeerings/delete'
      'Microsoft.Network/virtualNetworks/virtualNetworkPeerings/read'
      'Microsoft.Network/virtualNetworks/virtualNetworkPeerings/write'
      'Microsoft.Network/virtualNetworks/write'
      'Microsoft.OperationalInsights/workspaces/delete'
      'Microsoft.OperationalInsights/workspaces/read'
      'Microsoft.OperationalInsights/workspaces/sharedKeys/action'
      'Microsoft.OperationalInsights/workspaces/write'
      'Microsoft.Resources/subscriptions/operationresults/read'
      'Microsoft.Resources/subscriptions/providers/read'
      'Microsoft.Resources/subscriptions/read'
      'Microsoft.Resources/subscriptions/resourceGroups/delete'
      'Microsoft.Resources/subscriptions/resourceGroups/read'
      'Microsoft.Resources/subscriptions/resourceGroups/write'
    ]
    dataActions: []
  }

  // Extends Azure's Reader with the address and the certificate of the cluster, which contain no credential.
  planner: {
    actions: [
      'Microsoft.ContainerService/managedClusters/listClusterUserCredential/action'
    ]
    dataActions: []
  }

  // Extends Azure's RBAC Reader for clusters, which covers neither custom resources nor the definitions and
  // cluster-wide roles that the Pulumi program creates. It reads no Secret: Azure has a separate action for
  // Secrets.
  clusterPlanner: {
    actions: []
    dataActions: [
      'Microsoft.ContainerService/managedClusters/apiextensions.k8s.io/customresourcedefinitions/read'
      'Microsoft.ContainerService/managedClusters/customresources/read'
      'Microsoft.ContainerService/managedClusters/rbac.authorization.k8s.io/clusterrolebindings/read'
      'Microsoft.ContainerService/managedClusters/rbac.authorization.k8s.io/clusterroles/read'
    ]
  }

  // Reads the state. This role and the next have fewer rights than Azure's Storage Blob Data Reader and
  // Contributor, which may also delete the container despite its lock.
  stateReader: {
    actions: []
    dataActions: [
      'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read'
    ]
  }

  // Reads and writes the state.
  stateWriter: {
    actions: []
    dataActions: [
      'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read'
      'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write'
      'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/add/action'
      'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete'
    ]
  }

  // Encrypts and decrypts with the key of the state's secrets; cannot sign, export, change or delete it.
  stateSealer: {
    actions: []
    dataActions: [
      'Microsoft.KeyVault/vaults/keys/read'
      'Microsoft.KeyVault/vaults/keys/encrypt/action'
      'Microsoft.KeyVault/vaults/keys/decrypt/action'
    ]
  }

  // Reads a secret whose name the caller knows. The Pulumi program grants this role and the next. It does not
  // create them, because an identity that writes roles can give itself any right.
  secretGetter: {
    actions: []
    dataActions: [
      'Microsoft.KeyVault/vaults/secrets/getSecret/action'
    ]
  }

  // Writes and deletes secrets, and reads none: no get, no list and no metadata.
  secretWriter: {
    actions: []
    dataActions: [
      'Microsoft.KeyVault/vaults/secrets/delete'
      'Microsoft.KeyVault/vaults/secrets/setSecret/action'
    ]
  }

  // Writes the Azure resources of a slice, and is assigned only in the resource group of slices. An identity
  // that may write a federated credential on another identity can act as that identity, and no condition of
  // Azure can distinguish identities.
  previewer: {
    actions: [
      'Microsoft.Authorization/roleDefinitions/read'
      'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action'
      'Microsoft.ManagedIdentity/userAssignedIdentities/delete'
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/delete'
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/read'
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/write'
      'Microsoft.ManagedIdentity/userAssignedIdentities/read'
      'Microsoft.ManagedIdentity/userAssignedIdentities/write'
      'Microsoft.Resources/subscriptions/operationresults/read'
      'Microsoft.Resources/subscriptions/read'
      'Microsoft.Resources/subscriptions/resourceGroups/read'
    ]
    dataActions: []
  }

  // Writes the cluster objects of a slice. The code comes from a branch, so the role is not an administrator.
  // A client reads api, apis, openapi and version before it requests an object.
  sliceMaker: {
    actions: []
    dataActions: [
      'Microsoft.ContainerService/managedClusters/api/read'
      'Microsoft.ContainerService/managedClusters/apis/read'
      'Microsoft.ContainerService/managedClusters/namespaces/delete'
      'Microsoft.ContainerService/managedClusters/namespaces/read'
      'Microsoft.ContainerService/managedClusters/namespaces/write'
      'Microsoft.ContainerService/managedClusters/openapi/read'
      'Microsoft.ContainerService/managedClusters/resourcequotas/delete'
      'Microsoft.ContainerService/managedClusters/resourcequotas/read'
      'Microsoft.ContainerService/managedClusters/resourcequotas/write'
      'Microsoft.ContainerService/managedClusters/version/read'
    ]
  }

  // Copies images out of this subscription. It only reads here: the import writes in the other subscription.
  imageReader: {
    actions: [
      'Microsoft.ContainerRegistry/registries/pull/read'
      'Microsoft.ContainerRegistry/registries/read'
    ]
    dataActions: []
  }
}
