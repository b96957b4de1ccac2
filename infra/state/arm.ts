/** A resource of an ARM template. */
export interface ArmResource {
  readonly type: string
  readonly apiVersion: string
  readonly name: string
  readonly scope?: string
  readonly location?: string
  readonly kind?: string
  readonly sku?: { readonly name: string }
  readonly tags?: Readonly<Record<string, string>>
  readonly dependsOn?: readonly string[]
  readonly subscriptionId?: string
  readonly resourceGroup?: string
  readonly properties: Readonly<Record<string, unknown>>
}

export interface ArmTemplate {
  readonly $schema: string
  readonly contentVersion: '1.0.0.0'
  readonly resources: readonly ArmResource[]
  readonly outputs: Readonly<Record<string, { readonly type: 'string'; readonly value: string }>>
}

/**
 * API versions. They equal the defaults of the pinned `@pulumi/azure-native`, so that its types can check the request
 * bodies. The SDK has no type for deployments.
 */
export const API = {
  groups: '2024-03-01',
  deployments: '2024-03-01',
  locks: '2020-05-01',
  storage: '2024-01-01',
  vaults: '2024-11-01',
  identities: '2023-01-31',
  roles: '2022-05-01-preview',
  assignments: '2022-04-01',
} as const

export const SUBSCRIPTION_SCHEMA =
  'https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#'
export const GROUP_SCHEMA = 'https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#'
