import {
  BUILT_IN_ROLES,
  type BuiltInRole,
  SECRET_GETTER,
  SECRET_WRITER,
  secretGetter,
  secretWriter,
} from '../model/roles.ts'
import type { StateConfig } from './state-config.ts'

/** A custom role, in the form of Azure's permissions. */
export interface CustomRole {
  readonly name: string
  readonly description: string
  readonly actions: readonly string[]
  readonly dataActions: readonly string[]
}

/** Resource types that only a whole platform needs, by provider. A type is written with all of its parents. */
const PLATFORM_TYPES = {
  'Microsoft.AlertsManagement': ['prometheusRuleGroups'],
  'Microsoft.Consumption': ['budgets'],
  'Microsoft.ContainerRegistry': ['registries'],
  'Microsoft.ContainerService': [
    'managedClusters',
    'managedClusters/agentPools',
    'managedClusters/maintenanceConfigurations',
  ],
  'Microsoft.Dashboard': ['grafana'],
  'Microsoft.DBforPostgreSQL': [
    'flexibleServers',
    'flexibleServers/administrators',
    'flexibleServers/configurations',
    'flexibleServers/databases',
  ],
  'Microsoft.Insights': [
    'actionGroups',
    'dataCollectionEndpoints',
    'dataCollectionRuleAssociations',
    'dataCollectionRules',
    'diagnosticSettings',
  ],
  'Microsoft.KeyVault': ['vaults'],
  'Microsoft.KubernetesConfiguration': ['extensions'],
  'Microsoft.Monitor': ['accounts'],
  'Microsoft.Network': [
    'dnsZones',
    'natGateways',
    'networkSecurityGroups',
    'privateDnsZones',
    'privateDnsZones/virtualNetworkLinks',
    'privateEndpoints',
    'privateEndpoints/privateDnsZoneGroups',
    'publicIPAddresses',
    'virtualNetworks',
    'virtualNetworks/subnets',
    'virtualNetworks/virtualNetworkPeerings',
  ],
  'Microsoft.OperationalInsights': ['workspaces'],
} as const

/** Types that a slice of a branch creates too, in the one resource group that all slices share. */
const SLICE_TYPES = {
  'Microsoft.ManagedIdentity': [
    'userAssignedIdentities',
    'userAssignedIdentities/federatedIdentityCredentials',
  ],
} as const
const GROUPS = { 'Microsoft.Resources': ['subscriptions/resourceGroups'] } as const

type Types = Readonly<Record<string, readonly string[]>>

const threeOf = (type: string) => ['read', 'write', 'delete'].map((verb) => `${type}/${verb}`)
const allOf = (types: Types) =>
  Object.entries(types).flatMap(([provider, names]) =>
    names.flatMap((name) => threeOf(`${provider}/${name}`)),
  )

/** Actions other than read, write and delete: joining a resource to another one, and polling long operations. */
const PLATFORM_EXTRAS = [
  'Microsoft.ContainerService/managedClusters/listClusterUserCredential/action',
  'Microsoft.ContainerService/managedClusters/agentPools/upgradeNodeImageVersion/action',
  'Microsoft.ContainerService/locations/operationresults/read',
  'Microsoft.ContainerService/locations/operations/read',
  'Microsoft.DBforPostgreSQL/locations/*/read',
  'Microsoft.Insights/dataCollectionEndpoints/*/read',
  'Microsoft.KeyVault/locations/deletedVaults/read',
  'Microsoft.KeyVault/locations/operationResults/read',
  'Microsoft.KeyVault/vaults/privateEndpointConnectionsApproval/action',
  'Microsoft.ContainerRegistry/registries/privateEndpointConnectionsApproval/action',
  'Microsoft.ContainerRegistry/registries/importImage/action',
  'Microsoft.Monitor/accounts/*/read',
  // `infra check --azure` before an `up`: what the subscription has registered.
  'Microsoft.Features/providers/features/read',
  'Microsoft.Resources/subscriptions/providers/read',
  'Microsoft.Network/locations/operations/read',
  'Microsoft.Network/locations/operationResults/read',
  'Microsoft.Network/natGateways/join/action',
  'Microsoft.Network/networkSecurityGroups/join/action',
  'Microsoft.Network/privateDnsZones/join/action',
  'Microsoft.Network/publicIPAddresses/join/action',
  'Microsoft.Network/virtualNetworks/join/action',
  'Microsoft.Network/virtualNetworks/peer/action',
  'Microsoft.Network/virtualNetworks/subnets/join/action',
  'Microsoft.Network/virtualNetworks/subnets/joinViaServiceEndpoint/action',
  'Microsoft.OperationalInsights/workspaces/sharedKeys/action',
]

const SHARED_EXTRAS = [
  'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action',
  'Microsoft.Authorization/roleDefinitions/read',
  'Microsoft.Resources/subscriptions/read',
  'Microsoft.Resources/subscriptions/operationresults/read',
]

/** Writes the resources of a platform. Role assignments need a second role, which has a condition. */
export const DEPLOYER: CustomRole = {
  name: 'Agentweaver deployer',
  description: 'Creates and deletes the resources that the infrastructure program declares.',
  actions: [
    ...[PLATFORM_TYPES, SLICE_TYPES, GROUPS].flatMap(allOf),
    ...PLATFORM_EXTRAS,
    ...SHARED_EXTRAS,
  ].sort(),
  dataActions: [],
}

/** Cluster objects that a slice's program creates; all other objects of a slice come from its GitOps tree. */
const SLICE_OBJECTS = ['namespaces', 'resourcequotas']
const CLUSTER = 'Microsoft.ContainerService/managedClusters'

/**
 * Writes the Azure resources of a slice, only in the resource group of slices. An identity that may write a federated
 * credential on another identity can act as that identity, and no Azure condition can distinguish identities.
 */
export const PREVIEWER: CustomRole = {
  name: 'Agentweaver previewer',
  description: 'Creates and deletes the identities of preview slices.',
  actions: [
    ...allOf(SLICE_TYPES),
    ...SHARED_EXTRAS,
    'Microsoft.Resources/subscriptions/resourceGroups/read',
  ].sort(),
  dataActions: [],
}

/** Writes the cluster objects of a slice. The code comes from a branch, so the role is not an administrator. */
export const SLICE_MAKER: CustomRole = {
  name: 'Agentweaver slice maker',
  description: 'Creates and deletes the namespaces of preview slices and their limits.',
  actions: [],
  dataActions: [
    // Discovery requests that a client sends before it requests an object.
    ...['api', 'apis', 'openapi', 'version'].map((path) => `${CLUSTER}/${path}/read`),
    ...SLICE_OBJECTS.flatMap((kind) => threeOf(`${CLUSTER}/${kind}`)),
  ].sort(),
}

/** Extends Azure's own Reader with the address and the certificate of the cluster, which contain no credential. */
export const PLANNER: CustomRole = {
  name: 'Agentweaver planner',
  description: 'Reads the address of the cluster, to compare the cluster with the program.',
  actions: ['Microsoft.ContainerService/managedClusters/listClusterUserCredential/action'],
  dataActions: [],
}

/**
 * Extends Azure's own RBAC Reader for clusters, which covers neither custom resources nor the definitions and
 * cluster-wide roles that the program creates. It reads no Secret: Azure has a separate action for Secrets.
 */
export const CLUSTER_PLANNER: CustomRole = {
  name: 'Agentweaver cluster planner',
  description: 'Reads the objects of the cluster that the program declares, to compare them with it.',
  actions: [],
  dataActions: [
    'apiextensions.k8s.io/customresourcedefinitions',
    'customresources',
    'rbac.authorization.k8s.io/clusterrolebindings',
    'rbac.authorization.k8s.io/clusterroles',
  ].map((kind) => `${CLUSTER}/${kind}/read`),
}

/**
 * Copies images out of this subscription. It only reads here, because the import is a write in the other
 * subscription.
 */
export const IMAGE_READER: CustomRole = {
  name: 'Agentweaver image reader',
  description: 'Reads the images of registries, to import them into another subscription.',
  actions: [
    'Microsoft.ContainerRegistry/registries/pull/read',
    'Microsoft.ContainerRegistry/registries/read',
  ],
  dataActions: [],
}

/** Encrypts and decrypts with the key of the state's secrets; cannot sign, export, change or delete it. */
export const STATE_SEALER: CustomRole = {
  name: 'Agentweaver state sealer',
  description: "Encrypts and decrypts the data keys of Pulumi's state.",
  actions: [],
  dataActions: [
    'Microsoft.KeyVault/vaults/keys/read',
    'Microsoft.KeyVault/vaults/keys/encrypt/action',
    'Microsoft.KeyVault/vaults/keys/decrypt/action',
  ],
}

const BLOBS = 'Microsoft.Storage/storageAccounts/blobServices/containers/blobs'
const BLOB_CHANGES = [`${BLOBS}/write`, `${BLOBS}/add/action`, `${BLOBS}/delete`]

/**
 * Fewer rights than Azure's Storage Blob Data Reader and Contributor, which may also delete the container despite its
 * lock.
 */
export const STATE_READER: CustomRole = {
  name: 'Agentweaver state reader',
  description: 'Reads the state of stacks.',
  actions: [],
  dataActions: [`${BLOBS}/read`],
}
export const STATE_WRITER: CustomRole = {
  name: 'Agentweaver state writer',
  description: 'Reads and writes the state of stacks.',
  actions: [],
  dataActions: [`${BLOBS}/read`, ...BLOB_CHANGES],
}

/**
 * Condition on the writer for previews: it can change only blobs of a stack `pr-…` of the project. Pulumi keeps a
 * stack's state, locks, history and backups under `.pulumi/<what>/…<project>/<stack>`.
 */
export function previewStateCondition(project: string): string {
  const changes = BLOB_CHANGES.map((action) => `!(ActionMatches{'${action}'})`).join(' AND ')
  return `((${changes}) OR (@Resource[${BLOBS}:path] StringLike '.pulumi/*/${project}/pr-*'))`
}

/**
 * The program's custom role. An owner creates it, because an identity that writes roles can give itself any right.
 */
export const SECRET_GETTER_ROLE: CustomRole = {
  name: SECRET_GETTER.name,
  description: 'Reads a secret by its name; cannot list secrets.',
  actions: [],
  dataActions: SECRET_GETTER.dataActions,
}

/** The same for the API, which stores the credentials that users set. */
export const SECRET_WRITER_ROLE: CustomRole = {
  name: SECRET_WRITER.name,
  description: 'Writes and deletes secrets; cannot read or list them.',
  actions: [],
  dataActions: SECRET_WRITER.dataActions,
}

/**
 * Built-in roles that the bootstrap grants (learn.microsoft.com/azure/role-based-access-control/built-in-roles).
 */
export const BOOTSTRAP_ROLES = {
  Reader: 'acdd72a7-3385-48ef-bd42-f606fba81ae7',
  'Role Based Access Control Administrator': 'f58310d9-a9f6-439a-9e8d-f62e7b41a168',
  'Azure Kubernetes Service RBAC Cluster Admin':
    BUILT_IN_ROLES['Azure Kubernetes Service RBAC Cluster Admin'],
  'Azure Kubernetes Service RBAC Reader': '7f6c6a51-bcf8-42ba-9220-52d62157d7db',
} as const

/** The cluster's owner chooses its administrators, so the program cannot grant this role. */
const PLATFORM_ROLES = (Object.keys(BUILT_IN_ROLES) as BuiltInRole[]).filter(
  (name) => name !== 'Azure Kubernetes Service RBAC Cluster Admin',
)
/** Roles of a slice's identities: the secrets of their own deployment, and no rights in the cluster. */
const SLICE_ROLES: readonly BuiltInRole[] = ['Key Vault Secrets User']

/** The GUIDs of the roles that the program of the environment grants. */
export const secretGetterGuid = ({ subscriptionId, environment }: StateConfig): string =>
  guidIn(secretGetter(subscriptionId, `agentweaver-${environment}`))
export const secretWriterGuid = ({ subscriptionId, environment }: StateConfig): string =>
  guidIn(secretWriter(subscriptionId, `agentweaver-${environment}`))

const guidIn = ({ definitionId }: { readonly definitionId: string }): string =>
  definitionId.split('/').at(-1) ?? ''

/** GUIDs of the roles that a deployer, or a previewer, may grant and revoke. */
export function grantableRoles(config: StateConfig, isSlice: boolean): readonly string[] {
  const names = isSlice ? SLICE_ROLES : PLATFORM_ROLES
  const custom = [secretGetterGuid(config), secretWriterGuid(config)]
  return [...names.map((name) => BUILT_IN_ROLES[name]), ...custom].sort()
}

/**
 * Condition on Role Based Access Control Administrator. It allows only these roles, never for a person, and for a slice
 * only for identities, both when a role is granted and when it is removed. The form follows Azure's page of delegation
 * examples.
 */
export function grantCondition(roles: readonly string[], isSlice: boolean): string {
  const kinds = isSlice ? "'ServicePrincipal'" : "'ServicePrincipal', 'Group'"
  const guids = roles.join(', ')
  const clause = (verb: 'write' | 'delete', source: '@Request' | '@Resource') =>
    `((!(ActionMatches{'Microsoft.Authorization/roleAssignments/${verb}'})) OR (${source}[Microsoft.Authorization/roleAssignments:RoleDefinitionId] ForAnyOfAnyValues:GuidEquals {${guids}} AND ${source}[Microsoft.Authorization/roleAssignments:PrincipalType] ForAnyOfAnyValues:StringEqualsIgnoreCase {${kinds}}))`
  return `${clause('write', '@Request')} AND ${clause('delete', '@Resource')}`
}
