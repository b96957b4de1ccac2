import { join } from 'node:path'
import type { StateConfig } from '../../infra/state/state-config.ts'
import { stateParameters } from '../../infra/state/state-parameters.ts'
import { type DeployedResource, type Deployment, deploy } from './bicep/deployment.ts'
import { ROOT } from './state-rig.ts'

export const STATE_FOLDER = join(ROOT, 'infra/state')

/** What `npm run state -- apply` deploys for a configuration. */
export const stateDeploymentOf = (config: StateConfig): Deployment =>
  deploy(join(STATE_FOLDER, 'state.bicep'), stateParameters(config), config.subscriptionId)

/** A deployment and its modules. */
export const deploymentsOf = (deployment: Deployment): Deployment[] => [
  deployment,
  ...deployment.modules.flatMap((module) => deploymentsOf(module.deployment)),
]
export const resourcesOf = (config: StateConfig): DeployedResource[] =>
  deploymentsOf(stateDeploymentOf(config)).flatMap(({ resources }) => resources)
export const byType = (config: StateConfig, type: string): DeployedResource[] =>
  resourcesOf(config).filter((one) => one.type === type)

const DEFINITIONS = 'Microsoft.Authorization/roleDefinitions'
const ASSIGNMENTS = 'Microsoft.Authorization/roleAssignments'

/** The built-in roles that the deployment assigns, by GUID. */
const BUILT_IN: Readonly<Record<string, string>> = {
  'acdd72a7-3385-48ef-bd42-f606fba81ae7': 'Reader',
  'f58310d9-a9f6-439a-9e8d-f62e7b41a168': 'Role Based Access Control Administrator',
  'b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b': 'Azure Kubernetes Service RBAC Cluster Admin',
  '7f6c6a51-bcf8-42ba-9220-52d62157d7db': 'Azure Kubernetes Service RBAC Reader',
}

export interface CustomRole {
  readonly id: string
  /** Without the environment in its name. */
  readonly name: string
  readonly symbol: string
  readonly actions: readonly string[]
  readonly dataActions: readonly string[]
}

export function customRolesOf(config: StateConfig): CustomRole[] {
  return byType(config, DEFINITIONS).map(({ id, symbol, properties }) => {
    const [permissions, ...more] = properties['permissions'] as Pick<CustomRole, 'actions' | 'dataActions'>[]
    if (permissions === undefined || more.length > 0) throw new Error(`${symbol} has several permissions`)
    return { id, symbol, name: String(properties['roleName']).replace(/ \(.*\)$/, ''), ...permissions }
  })
}

export function customRoleOf(config: StateConfig, name: string): CustomRole {
  const found = customRolesOf(config).find((role) => role.name === name)
  if (!found) throw new Error(`there is no role ${name}`)
  return found
}

export interface Assignment {
  readonly resource: DeployedResource
  /** The name of the role. */
  readonly role: string
  readonly principal: string
  readonly condition: string | undefined
}

export function assignmentsOf(config: StateConfig): Assignment[] {
  const custom = customRolesOf(config)
  return byType(config, ASSIGNMENTS).map((resource) => {
    const { roleDefinitionId, principalId, condition } = resource.properties
    const id = String(roleDefinitionId)
    const role = custom.find((one) => one.id === id)?.name ?? BUILT_IN[id.split('/').at(-1) ?? '']
    if (role === undefined) throw new Error(`${id} is unknown`)
    return {
      resource,
      role,
      principal: String(principalId),
      // Line breaks and indentation have no meaning.
      condition: condition === undefined ? undefined : squeezed(String(condition)),
    }
  })
}

const squeezed = (condition: string) =>
  condition.replace(/\s+/g, ' ').replaceAll('( ', '(').replaceAll(' )', ')')

/** The assignments to the identity of a workflow. */
export const assignmentsTo = (config: StateConfig, duty: string): Assignment[] =>
  assignmentsOf(config).filter(({ principal }) => principal.endsWith(`-ci-${duty}).principalId`))

/** The condition on the right of an identity to grant roles. */
export function grantConditionOf(config: StateConfig, duty: string): string {
  const [grants] = assignmentsTo(config, duty).filter(({ role }) => role.startsWith('Role Based'))
  if (grants?.condition === undefined) throw new Error(`${duty} may grant every role`)
  return grants.condition
}

/** The GUIDs that a condition lists after an operator. Both clauses of a condition have the same ones. */
export function grantableRolesOf(config: StateConfig, duty: string): string[] {
  const lists = [...grantConditionOf(config, duty).matchAll(/GuidEquals \{([^}]+)\}/g)].map(
    ([, list]) => list,
  )
  if (lists.length !== 2 || lists[0] !== lists[1]) throw new Error('the clauses differ')
  return lists[0]?.split(', ') ?? []
}
