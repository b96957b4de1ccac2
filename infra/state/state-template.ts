import { customRoleGuid, roleAssignmentGuid } from '../model/naming.ts'
import { roleDefinitionId } from '../model/roles.ts'
import { API, type ArmResource, type ArmTemplate, GROUP_SCHEMA, SUBSCRIPTION_SCHEMA } from './arm.ts'
import {
  BOOTSTRAP_ROLES,
  CLUSTER_PLANNER,
  type CustomRole,
  DEPLOYER,
  grantableRoles,
  grantCondition,
  IMAGE_READER,
  PLANNER,
  PREVIEWER,
  SECRET_GETTER_ROLE,
  SECRET_WRITER_ROLE,
  SLICE_MAKER,
  STATE_READER,
  STATE_SEALER,
  STATE_WRITER,
  secretGetterGuid,
  secretWriterGuid,
} from './rights.ts'
import type { StateConfig } from './state-config.ts'
import { type Duty, stateNames } from './state-names.ts'
import { storeTemplate } from './store-template.ts'

/**
 * The only deployment that an owner runs by hand, on a subscription: the storage of the state, and the identities that
 * workflows log in as. It contains no secret. Deploying it again changes nothing.
 */
export function stateTemplate(config: StateConfig): ArmTemplate {
  const names = stateNames(config)
  const duties: readonly Duty[] = config.previews ? ['up', 'plan', 'preview'] : ['up', 'plan']
  const tags = { env: config.environment, managedBy: 'infra/state', product: 'agentweaver' }
  const custom = [
    DEPLOYER,
    PLANNER,
    CLUSTER_PLANNER,
    STATE_READER,
    STATE_WRITER,
    STATE_SEALER,
    SECRET_GETTER_ROLE,
    SECRET_WRITER_ROLE,
    ...(config.promotedBy === undefined ? [] : [IMAGE_READER]),
    ...(config.previews ? [PREVIEWER, SLICE_MAKER] : []),
  ]
  const idOfRole = (role: CustomRole) => roleDefinitionId(config.subscriptionId, guidOf(config, role))
  const builtIn = (name: keyof typeof BOOTSTRAP_ROLES) =>
    roleDefinitionId(config.subscriptionId, BOOTSTRAP_ROLES[name])
  const store: ArmResource = {
    type: 'Microsoft.Resources/deployments',
    apiVersion: API.deployments,
    name: names.deployment,
    resourceGroup: names.resourceGroup,
    dependsOn: [
      `[subscriptionResourceId('Microsoft.Resources/resourceGroups', '${names.resourceGroup}')]`,
      ...rolesMade(config, custom),
    ],
    properties: {
      mode: 'Incremental',
      expressionEvaluationOptions: { scope: 'inner' },
      template: storeTemplate({
        config,
        duties,
        tags,
        roles: {
          sealer: idOfRole(STATE_SEALER),
          writer: idOfRole(STATE_WRITER),
          reader: idOfRole(STATE_READER),
        },
      }),
    },
  }
  return {
    $schema: SUBSCRIPTION_SCHEMA,
    contentVersion: '1.0.0.0',
    resources: [
      ...[names.resourceGroup, ...(config.previews ? [names.previews] : [])].map((name) => ({
        type: 'Microsoft.Resources/resourceGroups',
        apiVersion: API.groups,
        name,
        location: config.location,
        tags,
        properties: {},
      })),
      ...custom.map((role) => definition(config, role)),
      store,
      ...duties.flatMap((duty) => rightsOf({ config, duty, idOfRole, builtIn })),
      ...promotion(config, idOfRole(IMAGE_READER)),
    ],
    outputs: outputsOf(config, duties),
  }
}

/** The program finds the roles that it grants by their GUIDs; the other roles are named after their environment. */
function guidOf(config: StateConfig, role: CustomRole): string {
  if (role === SECRET_GETTER_ROLE) return secretGetterGuid(config)
  if (role === SECRET_WRITER_ROLE) return secretWriterGuid(config)
  return customRoleGuid(config.subscriptionId, `${role.name} (${config.environment})`)
}

/** Names of roles are unique in a tenant, which may have several subscriptions with an environment of one name. */
const roleName = (config: StateConfig, role: CustomRole) =>
  `${role.name} (${config.environment} ${guidOf(config, role).slice(0, 8)})`

function definition(config: StateConfig, role: CustomRole): ArmResource {
  return {
    type: 'Microsoft.Authorization/roleDefinitions',
    apiVersion: API.roles,
    name: guidOf(config, role),
    properties: {
      roleName: roleName(config, role),
      description: role.description,
      type: 'CustomRole',
      permissions: [
        { actions: role.actions, notActions: [], dataActions: role.dataActions, notDataActions: [] },
      ],
      assignableScopes: [`/subscriptions/${config.subscriptionId}`],
    },
  }
}

const rolesMade = (config: StateConfig, roles: readonly CustomRole[]) =>
  roles.map(
    (role) =>
      `[subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '${guidOf(config, role)}')]`,
  )

interface Rights {
  readonly config: StateConfig
  readonly duty: Duty
  readonly idOfRole: (role: CustomRole) => string
  readonly builtIn: (name: keyof typeof BOOTSTRAP_ROLES) => string
}

/** The rights of one identity in the subscription. */
function rightsOf({ config, duty, idOfRole, builtIn }: Rights): ArmResource[] {
  const give = (role: string, roleDefinition: string, condition?: string) =>
    assignment(config, { duty, role, roleDefinition, condition })
  const reads = [give('reader', builtIn('Reader')), give('planner', idOfRole(PLANNER))]
  if (duty === 'plan')
    return [
      ...reads,
      give('cluster-reader', builtIn('Azure Kubernetes Service RBAC Reader')),
      give('cluster-planner', idOfRole(CLUSTER_PLANNER)),
    ]
  const isSlice = duty === 'preview'
  const condition = grantCondition(grantableRoles(config, isSlice), isSlice)
  const grants = give('grantor', builtIn('Role Based Access Control Administrator'), condition)
  if (isSlice)
    return [
      ...reads,
      grants,
      give('slice-maker', idOfRole(SLICE_MAKER)),
      inGroup(config, give('previewer', idOfRole(PREVIEWER))),
    ]
  return [
    give('deployer', idOfRole(DEPLOYER)),
    grants,
    // Custom resource definitions and the controller are objects of the cluster.
    give('cluster-admin', builtIn('Azure Kubernetes Service RBAC Cluster Admin')),
  ]
}

/**
 * Another environment's identity reads the images here. The registry does not exist yet, so the right covers all
 * registries of the subscription.
 */
function promotion(config: StateConfig, roleDefinition: string): ArmResource[] {
  const { promotedBy } = config
  if (promotedBy === undefined) return []
  return [
    {
      type: 'Microsoft.Authorization/roleAssignments',
      apiVersion: API.assignments,
      name: roleAssignmentGuid({
        stack: `state-${config.environment}`,
        scope: 'subscription',
        principal: promotedBy,
        role: 'image-reader',
        generation: 1,
      }),
      dependsOn: rolesMade(config, [IMAGE_READER]),
      properties: {
        principalId: promotedBy,
        principalType: 'ServicePrincipal',
        roleDefinitionId: roleDefinition,
      },
    },
  ]
}

/**
 * The same assignment on the resource group of slices. In a deployment to a subscription this needs a nested
 * deployment.
 */
function inGroup(config: StateConfig, granted: ArmResource): ArmResource {
  const { previews } = stateNames(config)
  const { dependsOn = [], properties, ...resource } = granted
  return {
    type: 'Microsoft.Resources/deployments',
    apiVersion: API.deployments,
    name: previews,
    resourceGroup: previews,
    dependsOn: [
      ...dependsOn,
      `[subscriptionResourceId('Microsoft.Resources/resourceGroups', '${previews}')]`,
    ],
    properties: {
      mode: 'Incremental',
      expressionEvaluationOptions: { scope: 'inner' },
      parameters: { principalId: { value: properties['principalId'] } },
      template: {
        $schema: GROUP_SCHEMA,
        contentVersion: '1.0.0.0',
        parameters: { principalId: { type: 'string' } },
        resources: [
          { ...resource, properties: { ...properties, principalId: "[parameters('principalId')]" } },
        ],
        outputs: {},
      },
    },
  }
}

interface Assigned {
  readonly duty: Duty
  readonly role: string
  readonly roleDefinition: string
  readonly condition: string | undefined
}

function assignment(config: StateConfig, { duty, role, roleDefinition, condition }: Assigned): ArmResource {
  const { identity, deployment, resourceGroup } = stateNames(config)
  const store = `resourceId('${config.subscriptionId}', '${resourceGroup}', 'Microsoft.Resources/deployments', '${deployment}')`
  return {
    type: 'Microsoft.Authorization/roleAssignments',
    apiVersion: API.assignments,
    name: roleAssignmentGuid({
      stack: `state-${config.environment}`,
      scope: 'subscription',
      principal: identity(duty),
      role,
      generation: 1,
    }),
    dependsOn: [`[${store}]`],
    properties: {
      principalId: `[reference(${store}, '${API.deployments}').outputs.${duty}Principal.value]`,
      principalType: 'ServicePrincipal',
      roleDefinitionId: roleDefinition,
      ...(condition === undefined ? {} : { condition, conditionVersion: '2.0' }),
    },
  }
}

/** The variables of the GitHub environments. None of them is secret. */
function outputsOf(config: StateConfig, duties: readonly Duty[]): ArmTemplate['outputs'] {
  const { storage, container, vault, key, deployment, resourceGroup } = stateNames(config)
  const store = `resourceId('${config.subscriptionId}', '${resourceGroup}', 'Microsoft.Resources/deployments', '${deployment}')`
  const text = (value: string) => ({ type: 'string' as const, value })
  return {
    backendUrl: text(`azblob://${container}?storage_account=${storage}`),
    secretsProvider: text(`azurekeyvault://${vault}.vault.azure.net/keys/${key}`),
    ...Object.fromEntries(
      duties.map((duty) => [
        `${duty}ClientId`,
        text(`[reference(${store}, '${API.deployments}').outputs.${duty}Client.value]`),
      ]),
    ),
    upPrincipalId: text(`[reference(${store}, '${API.deployments}').outputs.upPrincipal.value]`),
  }
}
