import { Vault } from '@pulumi/azure-native/keyvault/vault.js'
import { DiagnosticSetting } from '@pulumi/azure-native/monitor/diagnosticSetting.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Resource } from '@pulumi/pulumi'
import type { Site } from './site.ts'

export interface KeyVaultArgs {
  readonly site: Site
  readonly tenantId: string
  readonly vaultName: string
  /**
   * The only subnet that may reach the vault. Its id is built from names: with one unknown value the SDK reports every
   * property of a vault as unknown, and no review could see them.
   */
  readonly subnet: { readonly id: string; readonly after: readonly Resource[] }
  /** The workspace that records every read of a secret. */
  readonly logsId: Input<string>
}

/**
 * A vault that only role assignments and the nodes' subnet can open, with purge protection. It keeps its public name
 * because sandboxes may not open private addresses; the traffic uses a service endpoint of the nodes' subnet.
 */
export class KeyVault extends ComponentResource {
  /** Built from names, so that a plan shows the scope of a grant. */
  readonly vaultId: string
  readonly resource: Vault

  constructor(name: string, args: KeyVaultArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:KeyVault', name, {}, options)
    const { site, tenantId, vaultName, subnet, logsId } = args
    this.resource = new Vault(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        location: site.location,
        tags: site.tags,
        vaultName,
        properties: {
          tenantId,
          sku: { family: 'A', name: 'standard' },
          // The provider's own default is access policies.
          enableRbacAuthorization: true,
          enableSoftDelete: true,
          softDeleteRetentionInDays: 90,
          enablePurgeProtection: true,
          enabledForDeployment: false,
          enabledForDiskEncryption: false,
          enabledForTemplateDeployment: false,
          publicNetworkAccess: 'Enabled',
          networkAcls: {
            bypass: 'None',
            defaultAction: 'Deny',
            ipRules: [],
            virtualNetworkRules: [{ id: subnet.id }],
          },
        },
      },
      { parent: this, protect: site.protect, dependsOn: [...subnet.after] },
    )
    new DiagnosticSetting(
      `${name}-audit`,
      {
        name: 'audit',
        resourceUri: this.resource.id,
        workspaceId: logsId,
        logs: [{ category: 'AuditEvent', enabled: true }],
      },
      { parent: this },
    )
    this.vaultId = `${site.groupId}/providers/Microsoft.KeyVault/vaults/${vaultName}`
    this.registerOutputs({})
  }
}
