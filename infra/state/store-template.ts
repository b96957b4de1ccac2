import { CONFIG_NAMESPACE as PROJECT } from '../config-schema.ts'
import { roleAssignmentGuid } from '../model/naming.ts'
import { API, type ArmResource, type ArmTemplate, GROUP_SCHEMA } from './arm.ts'
import { previewStateCondition } from './rights.ts'
import type { StateConfig } from './state-config.ts'
import { type Duty, stateNames } from './state-names.ts'

/** The issuer of GitHub's tokens for workflows, and the only audience that Azure accepts. */
const GITHUB_ISSUER = 'https://token.actions.githubusercontent.com'
const AUDIENCE = 'api://AzureADTokenExchange'
/** Deleted state and keys can be restored for this many days. */
const KEPT_DAYS = 30
const VAULT_KEPT_DAYS = 90
const KEY_BITS = 3072

export interface StoreArgs {
  readonly config: StateConfig
  readonly duties: readonly Duty[]
  readonly tags: Readonly<Record<string, string>>
  /** Full ids of roles, by what holds them. */
  readonly roles: { readonly sealer: string; readonly writer: string; readonly reader: string }
}

/** All resources in the resource group of the state: its storage, the key that encrypts it, and its access rights. */
export function storeTemplate(args: StoreArgs): ArmTemplate {
  const names = stateNames(args.config)
  return {
    $schema: GROUP_SCHEMA,
    contentVersion: '1.0.0.0',
    resources: [
      lock(),
      ...storage(args),
      ...vault(args),
      ...args.duties.flatMap((duty) => identity(args, duty)),
      ...args.duties.flatMap((duty) => access(args, duty)),
      ...args.config.operators.flatMap((group) => operatorAccess(args, group)),
    ],
    outputs: Object.fromEntries(
      args.duties.flatMap((duty) => {
        const id = idOf('Microsoft.ManagedIdentity/userAssignedIdentities', names.identity(duty))
        return (['principalId', 'clientId'] as const).map((field) => [
          `${duty}${field === 'clientId' ? 'Client' : 'Principal'}`,
          { type: 'string' as const, value: `[reference(${id}, '${API.identities}').${field}]` },
        ])
      }),
    ),
  }
}

const idOf = (type: string, ...names: readonly string[]) =>
  `resourceId('${type}', ${names.map((name) => `'${name}'`).join(', ')})`

/** Protects the state against accidental deletion: the lock must be removed first. */
const lock = (): ArmResource => ({
  type: 'Microsoft.Authorization/locks',
  apiVersion: API.locks,
  name: 'state-is-not-deleted',
  properties: {
    level: 'CanNotDelete',
    notes: 'It holds the state of stacks: without it nothing knows what exists.',
  },
})

const network = ({ reachedFrom }: StateConfig) =>
  reachedFrom === 'anywhere'
    ? { bypass: 'None', defaultAction: 'Allow' }
    : { bypass: 'None', defaultAction: 'Deny', ipRules: reachedFrom.map((value) => ({ value })) }

function storage({ config, tags }: StoreArgs): ArmResource[] {
  const { storage: account, container } = stateNames(config)
  const retention = { enabled: true, days: KEPT_DAYS }
  return [
    {
      type: 'Microsoft.Storage/storageAccounts',
      apiVersion: API.storage,
      name: account,
      location: config.location,
      kind: 'StorageV2',
      sku: { name: 'Standard_ZRS' },
      tags,
      properties: {
        accessTier: 'Hot',
        allowBlobPublicAccess: false,
        allowSharedKeyAccess: false,
        defaultToOAuthAuthentication: true,
        minimumTlsVersion: 'TLS1_2',
        supportsHttpsTrafficOnly: true,
        networkAcls: network(config),
      },
    },
    {
      type: 'Microsoft.Storage/storageAccounts/blobServices',
      apiVersion: API.storage,
      name: `${account}/default`,
      dependsOn: [`[${idOf('Microsoft.Storage/storageAccounts', account)}]`],
      properties: {
        isVersioningEnabled: true,
        deleteRetentionPolicy: retention,
        containerDeleteRetentionPolicy: retention,
      },
    },
    {
      type: 'Microsoft.Storage/storageAccounts/blobServices/containers',
      apiVersion: API.storage,
      name: `${account}/default/${container}`,
      dependsOn: [`[${idOf('Microsoft.Storage/storageAccounts/blobServices', account, 'default')}]`],
      properties: { publicAccess: 'None' },
    },
  ]
}

function vault({ config, tags }: StoreArgs): ArmResource[] {
  const { vault: name, key } = stateNames(config)
  return [
    {
      type: 'Microsoft.KeyVault/vaults',
      apiVersion: API.vaults,
      name,
      location: config.location,
      tags,
      properties: {
        tenantId: config.tenantId,
        sku: { family: 'A', name: 'standard' },
        enableRbacAuthorization: true,
        enableSoftDelete: true,
        softDeleteRetentionInDays: VAULT_KEPT_DAYS,
        enablePurgeProtection: true,
        publicNetworkAccess: 'enabled',
        networkAcls: network(config),
      },
    },
    {
      // An existing key is returned unchanged: this never creates a new version of it.
      type: 'Microsoft.KeyVault/vaults/keys',
      apiVersion: API.vaults,
      name: `${name}/${key}`,
      dependsOn: [`[${idOf('Microsoft.KeyVault/vaults', name)}]`],
      properties: {
        kty: 'RSA',
        keySize: KEY_BITS,
        keyOps: ['encrypt', 'decrypt'],
        attributes: { exportable: false },
      },
    },
  ]
}

/** One identity for one duty, and one environment of GitHub that may be it. */
function identity({ config, tags }: StoreArgs, duty: Duty): ArmResource[] {
  const names = stateNames(config)
  const name = names.identity(duty)
  return [
    {
      type: 'Microsoft.ManagedIdentity/userAssignedIdentities',
      apiVersion: API.identities,
      name,
      location: config.location,
      tags,
      properties: {},
    },
    {
      type: 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials',
      apiVersion: API.identities,
      name: `${name}/github`,
      dependsOn: [`[${idOf('Microsoft.ManagedIdentity/userAssignedIdentities', name)}]`],
      properties: {
        issuer: GITHUB_ISSUER,
        subject: `repo:${config.repository}:environment:${names.gate(duty)}`,
        audiences: [AUDIENCE],
      },
    },
  ]
}

interface Granted {
  readonly principal: string
  readonly principalId: string
  readonly principalType: 'ServicePrincipal' | 'Group'
  readonly after: readonly string[]
}

/**
 * The plan identity reads the state, all other identities write it. Every identity decrypts its secrets, because a
 * comparison needs them.
 */
function access(args: StoreArgs, duty: Duty): ArmResource[] {
  const name = stateNames(args.config).identity(duty)
  const id = idOf('Microsoft.ManagedIdentity/userAssignedIdentities', name)
  const role = duty === 'plan' ? args.roles.reader : args.roles.writer
  const condition = duty === 'preview' ? previewStateCondition(PROJECT) : undefined
  return grants(
    args,
    { role, condition },
    {
      principal: name,
      principalId: `[reference(${id}, '${API.identities}').principalId]`,
      principalType: 'ServicePrincipal',
      after: [`[${id}]`],
    },
  )
}

const operatorAccess = (args: StoreArgs, group: string): ArmResource[] =>
  grants(
    args,
    { role: args.roles.writer, condition: undefined },
    { principal: group, principalId: group, principalType: 'Group', after: [] },
  )

interface StateRole {
  readonly role: string
  readonly condition: string | undefined
}

function grants(args: StoreArgs, state: StateRole, to: Granted): ArmResource[] {
  const { storage: account, container, vault: vaultName, key } = stateNames(args.config)
  const one = (on: {
    readonly name: string
    readonly scope: string
    readonly id: string
    readonly role: string
    readonly condition: string | undefined
  }) => ({
    type: 'Microsoft.Authorization/roleAssignments',
    apiVersion: API.assignments,
    name: roleAssignmentGuid({
      stack: `state-${args.config.environment}`,
      scope: on.name,
      principal: to.principal,
      role: on.role,
      generation: 1,
    }),
    scope: on.scope,
    dependsOn: [`[${on.id}]`, ...to.after],
    properties: {
      principalId: to.principalId,
      principalType: to.principalType,
      roleDefinitionId: on.role,
      ...(on.condition === undefined ? {} : { condition: on.condition, conditionVersion: '2.0' }),
    },
  })
  return [
    one({
      name: 'container',
      scope: `Microsoft.Storage/storageAccounts/${account}/blobServices/default/containers/${container}`,
      id: idOf('Microsoft.Storage/storageAccounts/blobServices/containers', account, 'default', container),
      ...state,
    }),
    one({
      name: 'key',
      scope: `Microsoft.KeyVault/vaults/${vaultName}/keys/${key}`,
      id: idOf('Microsoft.KeyVault/vaults/keys', vaultName, key),
      role: args.roles.sealer,
      condition: undefined,
    }),
  ]
}
