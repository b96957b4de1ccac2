import { Vault } from '@pulumi/azure-native/keyvault/vault.js'
import { DiagnosticSetting } from '@pulumi/azure-native/monitor/diagnosticSetting.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from '@pulumi/pulumi'
import type { Site } from './site.ts'

export interface KeyVaultArgs {
  readonly site: Site
  readonly tenantId: string
  readonly vaultName: string
  /** Subnets that may reach it; nobody else on the Internet may. */
  readonly subnetIds: readonly Input<string>[]
  /** Where every read of a secret is recorded. */
  readonly logsId: Input<string>
}

/**
 * A vault that opens to roles alone, from our nodes alone, and that nobody can purge. It has its public name: sandboxes
 * may open no private address, so the way is a service endpoint of the nodes' subnet.
 */
export class KeyVault extends ComponentResource {
  readonly vaultId: Output<string>
  readonly vaultName: string

  constructor(name: string, args: KeyVaultArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:KeyVault', name, {}, options)
    const { site, tenantId, vaultName, subnetIds, logsId } = args
    const vault = new Vault(
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
            virtualNetworkRules: subnetIds.map((id) => ({ id })),
          },
        },
      },
      { parent: this, protect: site.protect },
    )
    new DiagnosticSetting(
      `${name}-audit`,
      {
        name: 'audit',
        resourceUri: vault.id,
        workspaceId: logsId,
        logs: [{ category: 'AuditEvent', enabled: true }],
      },
      { parent: this },
    )
    this.vaultId = vault.id
    this.vaultName = vaultName
    this.registerOutputs({})
  }
}
