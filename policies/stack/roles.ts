import { createHash } from 'node:crypto'
import { isUnknown, type PlannedValue } from '../../contracts/planned-resource.ts'
import { asList, ofType, originsOf, valueAt } from './read.ts'
import type { RuledPlan, RuledResource } from './rule.ts'
import { RESOURCE_GROUP, ROLE_DEFINITION, VAULT } from './types.ts'

/** Ids of Azure's built-in roles that can change the resources in their scope, or the access to them. */
export const PRIVILEGED_ROLES: ReadonlyMap<string, string> = new Map([
  ['8e3af657-a8ff-443c-a75c-2fe8c4bcb635', 'Owner'],
  ['b24988ac-6180-42a0-ab88-20f7382dd24c', 'Contributor'],
  ['18d7d88d-d35e-4fb5-a5c3-7773c20a72d9', 'User Access Administrator'],
  ['f58310d9-a9f6-439a-9e8d-f62e7b41a168', 'Role Based Access Control Administrator'],
])

/**
 * The one data action that a custom role may grant to a sandbox identity: read a secret by its name. The built-in roles that
 * read secrets can also list them, so a sandbox identity may have no built-in role.
 */
const SANDBOX_DATA_ACTION = /^Microsoft\.KeyVault\/vaults\/secrets\/getSecret\/action$/i

const ROLE_ID =
  /^(?:\/subscriptions\/[^/]+(?:\/resourceGroups\/[^/]+)?)?\/providers\/Microsoft\.Authorization\/roleDefinitions\/([0-9a-f-]{36})$/i

/** Returns the role's id from the end of its resource id, which may begin with a scope. */
export function roleIdOf(value: PlannedValue | undefined): string | undefined {
  return typeof value === 'string' ? ROLE_ID.exec(value)?.[1]?.toLowerCase() : undefined
}

/** Returns the custom role that an assignment refers to, if the plan creates it. */
export function ownRole(plan: RuledPlan, assignment: RuledResource): RuledResource | undefined {
  const id = roleIdOf(assignment.inputs['roleDefinitionId'])
  const origins = originsOf(plan, assignment, 'roleDefinitionId')
  return ofType(plan, ROLE_DEFINITION).find((role) =>
    id === undefined ? origins.includes(role.urn) : role.inputs['roleDefinitionId'] === id,
  )
}

const VAULT_SCOPE =
  /^\/subscriptions\/[0-9a-f-]{36}\/resourceGroups\/([^/]+)\/providers\/Microsoft\.KeyVault\/vaults\/[^/]+$/i

/**
 * Whether an assignment uses the secret getter role of the platform that owns the vault. The bootstrap program defines
 * this role, because an account that may define roles could grant itself any right. The role's id is derived from the
 * subscription and the platform's name, which is also the name of its resource group.
 */
export function isPlatformsGetter(plan: RuledPlan, assignment: RuledResource): boolean {
  const role = assignment.inputs['roleDefinitionId']
  const [, subscription = ''] =
    typeof role === 'string' ? (/^\/subscriptions\/([^/]+)\//.exec(role) ?? []) : []
  const product = uuidV5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'agentweaver.io')
  const ids = groupsOf(plan, assignment).map((group) =>
    uuidV5(product, JSON.stringify(['role', subscription, `${group}-secret-getter`])),
  )
  return ids.includes(roleIdOf(role) ?? '')
}

/**
 * Returns the resource groups that the vault of an assignment can be in: the group in the vault's id, or the groups
 * that this plan creates.
 */
function groupsOf(plan: RuledPlan, assignment: RuledResource): readonly string[] {
  const scope = assignment.inputs['scope']
  if (typeof scope === 'string') return VAULT_SCOPE.exec(scope)?.slice(1) ?? []
  const vaults = ofType(plan, VAULT).map(({ urn }) => urn)
  const origins = originsOf(plan, assignment, 'scope')
  if (origins.length === 0 || origins.some((urn) => !vaults.includes(urn))) return []
  return ofType(plan, RESOURCE_GROUP).map(({ inputs }) => String(inputs['resourceGroupName']))
}

function uuidV5(namespace: string, name: string): string {
  const bytes = createHash('sha1')
    .update(Buffer.from(namespace.replaceAll('-', ''), 'hex'))
    .update(name)
    .digest()
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/**
 * Returns the actions of a custom role that a sandbox role must not have. Wildcards and patterns are always included,
 * because they match more than one action.
 */
export function beyondSandbox(role: RuledResource): readonly string[] {
  return asList(role.inputs['permissions']).flatMap((permission, index) => {
    const actions = valueAt(permission, 'actions') ?? []
    const dataActions = valueAt(permission, 'dataActions') ?? []
    if (!Array.isArray(actions) || !Array.isArray(dataActions)) return [`permissions[${index}]`]
    const isAllowed = (action: PlannedValue) => typeof action === 'string' && SANDBOX_DATA_ACTION.test(action)
    return [...actions, ...dataActions.filter((action) => !isAllowed(action))].map((action) =>
      typeof action === 'string' ? action : `an action that is not known (permissions[${index}])`,
    )
  })
}

const ONE_RESOURCE =
  /^\/subscriptions\/[^/]+\/resourceGroups\/[^/]+\/providers\/[A-Za-z.]+(?:\/[A-Za-z][A-Za-z0-9]*\/[^/]+)+\/?$/i

/** Whether a scope covers more than one resource. A scope that cannot be read counts as wide. */
export function isWide(scope: PlannedValue | undefined, types: readonly string[]): boolean {
  if (typeof scope === 'string') return !ONE_RESOURCE.test(scope)
  const isOneResource = isUnknown(scope) && types.length > 0
  return (
    !isOneResource || types.some((type) => /^azure-native:(?:resources|management|subscription):/.test(type))
  )
}
