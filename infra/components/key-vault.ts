import { Vault } from '@pulumi/azure-native/keyvault/vault.js'
import { DiagnosticSetting } from '@pulumi/azure-native/monitor/diagnosticSetting.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Resource } from '@pulumi/pulumi'
import type { Site } from './site.ts'

export interface KeyVaultArgs {
  readonly site: Site
  readonly tenantId: string
  readonly vaultName: string
  /**
   * The subnet that may reach it; nobody else on the Internet may. Its id is known before it exists: with one unknown
   * value among them, the SDK answers all properties of a vault as unknown, and no review could see them.
   */
  readonly subnet: { readonly id: string; readonly after: readonly Resource[] }
  /** Where every read of a secret is recorded. */
  readonly logsId: Input<string>
}

/**
 * A vault that opens to roles alone, from our nodes alone, and that nobody can purge. It has its public name: sandboxes
 * may open no private address, so the way is a service endpoint of the nodes' subnet.
 */
export class KeyVault extends ComponentResource {
  /** Made of names, so that a plan shows what a grant is on. */
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
