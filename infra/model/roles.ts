import { customRoleGuid } from './naming.ts'

/**
 * Azure's built-in roles that the program grants, by name. GUIDs are the same in every tenant
 * (learn.microsoft.com/azure/role-based-access-control/built-in-roles).
 */
export const BUILT_IN_ROLES = {
  AcrPull: '7f951dda-4ed3-4680-a7ca-43fe172d538d',
  'Azure Kubernetes Service RBAC Cluster Admin': 'b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b',
  'Cognitive Services OpenAI User': '5e0bd9bd-7b93-4f28-af87-19fc36ad61bd',
  'DNS Zone Contributor': 'befefa01-2a29-4197-83a8-272ff33ce314',
  'Key Vault Secrets User': '4633458b-17de-408a-b874-0445c86b69e6',
  'Managed Identity Operator': 'f1a07417-d97a-45cb-824c-7a7467783830',
  'Monitoring Data Reader': 'b0d8363b-8ddd-447d-831f-62ca05bff136',
  'Network Contributor': '4d97b98b-1d4f-4787-a291-c67834d212e7',
} as const
export type BuiltInRole = keyof typeof BUILT_IN_ROLES

/**
 * Reads a secret whose name the caller knows: no list and no metadata. The only right on users' credentials that the egress proxy has,
 * and AgentHost in mode `fqdn`.
 */
export const SECRET_GETTER = {
  name: 'Agentweaver secret getter',
  id: 'secret-getter',
} as const

/** Writes and deletes secrets, and reads none: no get, no list and no metadata. The API's only right on users' credentials. */
export const SECRET_WRITER = {
  name: 'Agentweaver secret writer',
  id: 'secret-writer',
} as const

type OwnersRole = typeof SECRET_GETTER | typeof SECRET_WRITER

/**
 * A custom role that an owner created for a platform (`infra/state`). The program creates no roles: an identity that
 * may write a role can add any right to it and bypass the conditions on grants.
 */
function ownersRole({ name, id }: OwnersRole, subscriptionId: string, platform: string) {
  const guid = customRoleGuid(subscriptionId, `${platform}-${id}`)
  return { name, definitionId: roleDefinitionId(subscriptionId, guid) } as const
}

export const secretGetter = (subscriptionId: string, platform: string) =>
  ownersRole(SECRET_GETTER, subscriptionId, platform)

export const secretWriter = (subscriptionId: string, platform: string) =>
  ownersRole(SECRET_WRITER, subscriptionId, platform)

/** Full id of a role, in the form that an Azure role assignment needs. */
export function roleDefinitionId(subscriptionId: string, guid: string): string {
  return `/subscriptions/${subscriptionId}/providers/Microsoft.Authorization/roleDefinitions/${guid}`
}
