import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { StateConfig } from '../../infra/state/state-config.ts'
import { shapesFolder } from '../../tools/azure-shapes/cache.ts'
import { checkShapes, loadShapes, type Shapes } from '../../tools/azure-shapes/check-shapes.ts'
import type { DeployedResource } from './bicep/deployment.ts'
import { planOf } from './one-resource.ts'
import { byType, resourcesOf } from './state-deployment.ts'
import { ROOT, stateConfigOf } from './state-rig.ts'

const DEV = stateConfigOf('dev')
const PROD = stateConfigOf('prod')

describe('request bodies, checked against the types of the pinned SDK', () => {
  const TYPES = {
    'Microsoft.Storage/storageAccounts': 'azure-native:storage:StorageAccount',
    'Microsoft.Storage/storageAccounts/blobServices': 'azure-native:storage:BlobServiceProperties',
    'Microsoft.Storage/storageAccounts/blobServices/containers': 'azure-native:storage:BlobContainer',
    'Microsoft.KeyVault/vaults': 'azure-native:keyvault:Vault',
    'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials':
      'azure-native:managedidentity:FederatedIdentityCredential',
    'Microsoft.Authorization/roleAssignments': 'azure-native:authorization:RoleAssignment',
    'Microsoft.Authorization/roleDefinitions': 'azure-native:authorization:RoleDefinition',
  } as const
  let shapes: Shapes
  beforeAll(async () => {
    shapes = await loadShapes(Object.values(TYPES), shapesFolder(process.env['XDG_CACHE_HOME']))
  })

  /**
   * SDK names of properties that the SDK renames, by ARM name. `PATH` has the properties that are part of ARM's path.
   */
  const RENAMED: Readonly<Record<string, string>> = {
    supportsHttpsTrafficOnly: 'enableHttpsTrafficOnly',
    networkAcls: 'networkRuleSet',
    type: 'roleType',
  }
  const PATH = {
    resourceGroupName: 'rg',
    resourceName: 'x',
    accountName: 'x',
    containerName: 'x',
    blobServicesName: 'default',
    vaultName: 'x',
    federatedIdentityCredentialResourceName: 'x',
    scope: '/x',
  }
  function problems(resource: DeployedResource): string[] {
    const type = TYPES[resource.type as keyof typeof TYPES]
    const { location, kind, sku, tags, properties } = resource
    const isVault = type === TYPES['Microsoft.KeyVault/vaults']
    const own = isVault
      ? { properties }
      : Object.fromEntries(
          Object.entries(properties).map(([key, value]) => [RENAMED[key] ?? key, storageRules(value)]),
        )
    const top = Object.fromEntries(
      Object.entries({ location, kind, sku, tags }).filter(([, value]) => value !== undefined),
    )
    const found = checkShapes(planOf(type, { ...PATH, ...top, ...own }), shapes)
    const isOfPath = (message: string) => Object.keys(PATH).some((key) => message.startsWith(key))
    return found
      .map(({ path, message }) => `${resource.type}: ${path} ${message}`)
      .filter((text) => !isOfPath(text.split(': ')[1] ?? ''))
  }
  /** The SDK spells the address of a rule of storage otherwise. */
  const storageRules = (value: unknown) =>
    typeof value === 'object' && value !== null && 'ipRules' in value && Array.isArray(value.ipRules)
      ? {
          ...value,
          ipRules: value.ipRules.map((rule: { value: string }) => ({ iPAddressOrRange: rule.value })),
        }
      : value
  const checked = (config: StateConfig) => resourcesOf(config).filter(({ type }) => type in TYPES)

  test.each([
    ['dev', DEV],
    ['prod', PROD],
  ])('are right in %s', (_, config) => {
    expect(checked(config).length).toBeGreaterThan(15)
    expect(checked(config).flatMap(problems)).toEqual([])
  })

  /** The files of the SDK that declare the types. */
  const DECLARED = {
    'Microsoft.Authorization/locks': 'authorization/managementLockByScope',
    'Microsoft.Authorization/roleAssignments': 'authorization/roleAssignment',
    'Microsoft.Authorization/roleDefinitions': 'authorization/roleDefinition',
    'Microsoft.KeyVault/vaults': 'keyvault/vault',
    'Microsoft.KeyVault/vaults/keys': 'keyvault/key',
    'Microsoft.ManagedIdentity/userAssignedIdentities': 'managedidentity/userAssignedIdentity',
    'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials':
      'managedidentity/federatedIdentityCredential',
    'Microsoft.Resources/resourceGroups': 'resources/resourceGroup',
    'Microsoft.Storage/storageAccounts': 'storage/storageAccount',
    'Microsoft.Storage/storageAccounts/blobServices': 'storage/blobServiceProperties',
    'Microsoft.Storage/storageAccounts/blobServices/containers': 'storage/blobContainer',
  } as const
  test('have the API versions whose types the SDK has', () => {
    const used = new Map(resourcesOf(DEV).map(({ type, apiVersion }) => [type, apiVersion]))
    const pinned = Object.entries(DECLARED).map(([type, file]): [string, string | undefined] => {
      const text = readFileSync(join(ROOT, `node_modules/@pulumi/azure-native/${file}.d.ts`), 'utf8')
      return [type, /Uses Azure REST API version ([\w-]+)/.exec(text)?.[1]]
    })

    expect(Object.fromEntries(used)).toEqual(Object.fromEntries(pinned))
  })

  test('reports a planted mistake', () => {
    const [account] = byType(DEV, 'Microsoft.Storage/storageAccounts')
    if (!account) throw new Error('no account')

    expect(
      problems({ ...account, properties: { ...account.properties, minimumTlsVersion: 'TLS9' } }),
    ).toHaveLength(1)
    expect(
      problems({ ...account, properties: { ...account.properties, allowSharedKey: false } }),
    ).toHaveLength(1)
  })
})
