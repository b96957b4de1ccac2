import { Zone } from '@pulumi/azure-native/dns/zone.js'
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from '@pulumi/pulumi'
import type { PlatformConfig } from '../config-sections.ts'
import type { Site } from './site.ts'
import { WorkloadIdentity } from './workload-identity.ts'

export interface DnsArgs {
  readonly site: Site
  readonly dns: PlatformConfig['dns']
  readonly issuer: Input<string>
  readonly identity: (purpose: string) => string
}

/**
 * The zone of the API and of previews, one identity that obtains certificates by DNS challenges, and one that keeps the
 * records of Gateways. Both may write this zone and nothing else.
 */
export class Dns extends ComponentResource {
  readonly zoneName: Output<string>
  /** Of the identities, for the zones of slices. */
  readonly principalIds: { readonly certificates: Output<string>; readonly records: Output<string> }

  constructor(name: string, { site, dns, issuer, identity }: DnsArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:Dns', name, {}, options)
    const zone = new Zone(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        location: 'global',
        tags: site.tags,
        zoneName: dns.zone,
        zoneType: 'Public',
      },
      { parent: this, protect: site.protect },
    )
    const account = (purpose: 'certificates' | 'records', why: string) =>
      new WorkloadIdentity(
        `${name}-${purpose}`,
        {
          site,
          identityName: identity(`dns-${purpose}`),
          issuer,
          serviceAccounts: [{ namespace: dns[purpose].namespace, name: dns[purpose].serviceAccount }],
          grants: [{ role: 'DNS Zone Contributor', scope: zone.id, on: dns.zone, why }],
        },
        { parent: this },
      )
    this.zoneName = zone.name
    this.principalIds = {
      certificates: account('certificates', 'answers DNS challenges for certificates').principalId,
      records: account('records', 'keeps the records of Gateways').principalId,
    }
    this.registerOutputs({})
  }
}
