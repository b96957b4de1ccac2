import { AdministratorsMicrosoftEntra } from '@pulumi/azure-native/dbforpostgresql/administratorsMicrosoftEntra.js'
import { Configuration } from '@pulumi/azure-native/dbforpostgresql/configuration.js'
import { Database as AzureDatabase } from '@pulumi/azure-native/dbforpostgresql/database.js'
import { Server } from '@pulumi/azure-native/dbforpostgresql/server.js'
import { PrivateZone } from '@pulumi/azure-native/privatedns/privateZone.js'
import { VirtualNetworkLink } from '@pulumi/azure-native/privatedns/virtualNetworkLink.js'
import {
  ComponentResource,
  type ComponentResourceOptions,
  type Input,
  type Output,
  type Resource,
} from '@pulumi/pulumi'
import type { PlatformConfig } from '../config-sections.ts'
import { databaseTier } from '../model/vm-sizes.ts'
import { required } from './required.ts'
import type { Site } from './site.ts'

export interface DatabaseArgs {
  readonly site: Site
  readonly serverName: string
  readonly tenantId: string
  readonly database: PlatformConfig['database']
  readonly virtualNetworkId: Input<string>
  readonly subnetId: Input<string>
  /** Identity that creates the API's role. It is an administrator in addition to the group of people. */
  readonly setup: { readonly name: string; readonly principalId: Input<string> }
}

/** Name of the one database on the server. */
export const DATABASE_NAME = 'agentweaver'

/** PostgreSQL inside the platform's network. It accepts Entra tokens and no password. */
export class Database extends ComponentResource {
  readonly host: Output<string>
  readonly serverId: Output<string>

  constructor(name: string, args: DatabaseArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:Database', name, {}, options)
    const { site, serverName, tenantId, database } = args
    const { zone, link } = this.#names(name, args)
    const server = new Server(
      name,
      {
        resourceGroupName: site.resourceGroupName,
        location: site.location,
        tags: site.tags,
        serverName,
        createMode: 'Create',
        version: database.version,
        sku: { name: database.size, tier: databaseTier(database.size) },
        storage: { storageSizeGB: database.storageGib, autoGrow: 'Enabled' },
        backup: {
          backupRetentionDays: database.backupDays,
          geoRedundantBackup: database.geoRedundantBackup ? 'Enabled' : 'Disabled',
        },
        highAvailability: { mode: database.highAvailability ? 'ZoneRedundant' : 'Disabled' },
        authConfig: { activeDirectoryAuth: 'Enabled', passwordAuth: 'Disabled', tenantId },
        network: {
          delegatedSubnetResourceId: args.subnetId,
          privateDnsZoneArmResourceId: zone.id,
          publicNetworkAccess: 'Disabled',
        },
        maintenanceWindow: { customWindow: 'Enabled', dayOfWeek: 0, startHour: 8, startMinute: 0 },
      },
      {
        parent: this,
        protect: site.protect,
        dependsOn: [link],
        // It grows by itself and cannot shrink; Azure chooses the zones.
        ignoreChanges: [
          'storage.storageSizeGB',
          'availabilityZone',
          'highAvailability.standbyAvailabilityZone',
        ],
        customTimeouts: { create: '60m', update: '60m', delete: '60m' },
      },
    )
    this.#inside(name, args, server)
    this.serverId = server.id
    this.host = required(server.fullyQualifiedDomainName, 'the name of the database server')
    this.registerOutputs({})
  }

  /** The zone must be linked before the server is created, or the nodes never find the server. */
  #names(name: string, { site, serverName, virtualNetworkId }: DatabaseArgs) {
    const { resourceGroupName, tags } = site
    const zone = new PrivateZone(
      `${name}-zone`,
      {
        resourceGroupName,
        location: 'global',
        tags,
        privateZoneName: `${serverName}.private.postgres.database.azure.com`,
      },
      { parent: this, protect: site.protect },
    )
    const link = new VirtualNetworkLink(
      `${name}-zone-link`,
      {
        resourceGroupName,
        location: 'global',
        tags,
        privateZoneName: zone.name,
        virtualNetworkLinkName: serverName,
        registrationEnabled: false,
        virtualNetwork: { id: virtualNetworkId },
      },
      { parent: this },
    )
    return { zone, link }
  }

  /** A chain: the server refuses a second change while one runs. */
  #inside(name: string, { site, tenantId, database, setup }: DatabaseArgs, server: Server): void {
    const on = { resourceGroupName: site.resourceGroupName, serverName: server.name }
    const { objectId, name: principalName } = database.adminGroup
    let before: Resource = new AdministratorsMicrosoftEntra(
      `${name}-administrators`,
      { ...on, objectId, principalName, principalType: 'group', tenantId },
      { parent: this },
    )
    before = new AdministratorsMicrosoftEntra(
      `${name}-setup-administrator`,
      {
        ...on,
        objectId: setup.principalId,
        principalName: setup.name,
        principalType: 'servicePrincipal',
        tenantId,
      },
      { parent: this, dependsOn: [before] },
    )
    const settings = { require_secure_transport: 'on', ssl_min_protocol_version: 'TLSv1.3' }
    for (const [configurationName, value] of Object.entries(settings)) {
      before = new Configuration(
        `${name}-${configurationName}`,
        { ...on, configurationName, value, source: 'user-override' },
        { parent: this, dependsOn: [before] },
      )
    }
    new AzureDatabase(
      `${name}-database`,
      { ...on, databaseName: DATABASE_NAME, charset: 'UTF8', collation: 'en_US.utf8' },
      { parent: this, protect: site.protect, dependsOn: [before] },
    )
  }
}
