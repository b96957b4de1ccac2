import { createHash } from 'node:crypto'
import { isUnknown, type PlannedValue } from '../../contracts/planned-resource.ts'
import { asList, ofType, originsOf, valueAt } from './read.ts'
import type { RuledPlan, RuledResource } from './rule.ts'
import { ROLE_DEFINITION } from './types.ts'

/** Ids of Azure's own roles that change what they reach, or who may. */
export const PRIVILEGED_ROLES: ReadonlyMap<string, string> = new Map([
  ['8e3af657-a8ff-443c-a75c-2fe8c4bcb635', 'Owner'],
  ['b24988ac-6180-42a0-ab88-20f7382dd24c', 'Contributor'],
  ['18d7d88d-d35e-4fb5-a5c3-7773c20a72d9', 'User Access Administrator'],
  ['f58310d9-a9f6-439a-9e8d-f62e7b41a168', 'Role Based Access Control Administrator'],
])

/** Azure's own roles that an identity of sandboxes may hold: they read, or they ask a model. */
export const SANDBOX_ROLES: ReadonlyMap<string, string> = new Map([
  ['4633458b-17de-408a-b874-0445c86b69e6', 'Key Vault Secrets User'],
  ['5e0bd9bd-7b93-4f28-af87-19fc36ad61bd', 'Cognitive Services OpenAI User'],
])

/** What a role of our own may do for an identity of sandboxes: read one secret by its name, or ask a model. */
const SANDBOX_DATA_ACTIONS = [
  /^Microsoft\.KeyVault\/vaults\/secrets\/getSecret\/action$/i,
  /^Microsoft\.CognitiveServices\/accounts\/OpenAI\/[A-Za-z/-]+\/(?:action|read)$/i,
]

const ROLE_ID =
  /^(?:\/subscriptions\/[^/]+)?\/providers\/Microsoft\.Authorization\/roleDefinitions\/([0-9a-f-]{36})$/i

/** The id of a role, at the end of its resource id; nothing where that is no role's. */
export function roleIdOf(value: PlannedValue | undefined): string | undefined {
  return typeof value === 'string' ? ROLE_ID.exec(value)?.[1]?.toLowerCase() : undefined
}

/** The role of our own that an assignment names, where the plan makes it. */
export function ownRole(plan: RuledPlan, assignment: RuledResource): RuledResource | undefined {
  const id = roleIdOf(assignment.inputs['roleDefinitionId'])
  const origins = originsOf(plan, assignment, 'roleDefinitionId')
  return ofType(plan, ROLE_DEFINITION).find((role) =>
    id === undefined ? origins.includes(role.urn) : role.inputs['roleDefinitionId'] === id,
  )
}

const VAULT_SCOPE =
  /^\/subscriptions\/([0-9a-f-]{36})\/resourceGroups\/([^/]+)\/providers\/Microsoft\.KeyVault\/vaults\/[^/]+$/i

/**
 * Whether an assignment is of the secret getter of the platform whose vault it is for. Another stack has made that role,
 * under these rules; its id is made of the subscription and the platform's name, which is that of its group.
 */
export function isPlatformsGetter({ inputs }: RuledResource): boolean {
  const [, subscription = '', group = ''] = VAULT_SCOPE.exec(String(inputs['scope'])) ?? []
  const id = roleIdOf(inputs['roleDefinitionId'])
  const product = uuidV5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'agentweaver.io')
  return (
    group !== '' && id === uuidV5(product, JSON.stringify(['role', subscription, `${group}-secret-getter`]))
  )
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

/** Everything a role of our own may do that one for sandboxes may not; `*` and patterns are more than they say. */
export function beyondSandbox(role: RuledResource): readonly string[] {
  return asList(role.inputs['permissions']).flatMap((permission, index) => {
    const actions = valueAt(permission, 'actions') ?? []
    const dataActions = valueAt(permission, 'dataActions') ?? []
    if (!Array.isArray(actions) || !Array.isArray(dataActions)) return [`permissions[${index}]`]
    const isAllowed = (action: PlannedValue) =>
      typeof action === 'string' && SANDBOX_DATA_ACTIONS.some((pattern) => pattern.test(action))
    return [...actions, ...dataActions.filter((action) => !isAllowed(action))].map((action) =>
      typeof action === 'string' ? action : `an action that is not known (permissions[${index}])`,
    )
  })
}

const ONE_RESOURCE =
  /^\/subscriptions\/[^/]+\/resourceGroups\/[^/]+\/providers\/[A-Za-z.]+(?:\/[A-Za-z][A-Za-z0-9]*\/[^/]+)+\/?$/i

/** Whether a scope is more than one resource; what cannot be read counts as more. */
export function isWide(scope: PlannedValue | undefined, types: readonly string[]): boolean {
  if (typeof scope === 'string') return !ONE_RESOURCE.test(scope)
  const isOneResource = isUnknown(scope) && types.length > 0
  return (
    !isOneResource || types.some((type) => /^azure-native:(?:resources|management|subscription):/.test(type))
  )
}
