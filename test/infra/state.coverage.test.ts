import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Plan } from '../../contracts/planned-resource.ts'
import { type CustomRole, customRoleOf, grantableRolesOf, grantConditionOf } from './state-deployment.ts'
import { ROOT, stateConfigOf } from './state-rig.ts'

const planOf = (stack: string) => JSON.parse(readFileSync(join(ROOT, `plans/${stack}.json`), 'utf8')) as Plan
const typesOf = (...stacks: string[]) =>
  new Set(
    stacks.flatMap((stack) =>
      planOf(stack)
        .resources.filter(({ custom }) => custom)
        .map(({ type }) => type),
    ),
  )

/** ARM names of the SDK's types. */
const ARM: Readonly<Record<string, string>> = {
  'alertsmanagement:PrometheusRuleGroup': 'Microsoft.AlertsManagement/prometheusRuleGroups',
  'consumption:Budget': 'Microsoft.Consumption/budgets',
  'containerregistry:Registry': 'Microsoft.ContainerRegistry/registries',
  'containerservice:AgentPool': 'Microsoft.ContainerService/managedClusters/agentPools',
  'containerservice:MaintenanceConfiguration':
    'Microsoft.ContainerService/managedClusters/maintenanceConfigurations',
  'containerservice:ManagedCluster': 'Microsoft.ContainerService/managedClusters',
  'dashboard:Grafana': 'Microsoft.Dashboard/grafana',
  'dbforpostgresql:AdministratorsMicrosoftEntra': 'Microsoft.DBforPostgreSQL/flexibleServers/administrators',
  'dbforpostgresql:Configuration': 'Microsoft.DBforPostgreSQL/flexibleServers/configurations',
  'dbforpostgresql:Database': 'Microsoft.DBforPostgreSQL/flexibleServers/databases',
  'dbforpostgresql:Server': 'Microsoft.DBforPostgreSQL/flexibleServers',
  'dns:Zone': 'Microsoft.Network/dnsZones',
  'keyvault:Vault': 'Microsoft.KeyVault/vaults',
  'managedidentity:FederatedIdentityCredential':
    'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials',
  'managedidentity:UserAssignedIdentity': 'Microsoft.ManagedIdentity/userAssignedIdentities',
  'monitor:ActionGroup': 'Microsoft.Insights/actionGroups',
  'monitor:AzureMonitorWorkspace': 'Microsoft.Monitor/accounts',
  'monitor:DataCollectionEndpoint': 'Microsoft.Insights/dataCollectionEndpoints',
  'monitor:DataCollectionRule': 'Microsoft.Insights/dataCollectionRules',
  'monitor:DataCollectionRuleAssociation': 'Microsoft.Insights/dataCollectionRuleAssociations',
  'monitor:DiagnosticSetting': 'Microsoft.Insights/diagnosticSettings',
  'network:NatGateway': 'Microsoft.Network/natGateways',
  'network:NetworkSecurityGroup': 'Microsoft.Network/networkSecurityGroups',
  'network:PrivateDnsZoneGroup': 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups',
  'network:PrivateEndpoint': 'Microsoft.Network/privateEndpoints',
  'network:PublicIPAddress': 'Microsoft.Network/publicIPAddresses',
  'network:Subnet': 'Microsoft.Network/virtualNetworks/subnets',
  'network:VirtualNetwork': 'Microsoft.Network/virtualNetworks',
  'operationalinsights:Workspace': 'Microsoft.OperationalInsights/workspaces',
  'privatedns:PrivateZone': 'Microsoft.Network/privateDnsZones',
  'privatedns:VirtualNetworkLink': 'Microsoft.Network/privateDnsZones/virtualNetworkLinks',
  'resources:ResourceGroup': 'Microsoft.Resources/subscriptions/resourceGroups',
}
/** The controller as an extension of AKS, and a peered network: none of the committed stacks chooses them. */
const BY_CONFIG = [
  'Microsoft.KubernetesConfiguration/extensions',
  'Microsoft.Network/virtualNetworks/virtualNetworkPeerings',
]
const role = (name: string) => customRoleOf(stateConfigOf('dev'), `Agentweaver ${name}`)
const DEPLOYER = role('deployer')
const GRANT = 'azure-native:authorization:RoleAssignment'

const armTypes = (types: Iterable<string>) =>
  [...types]
    .filter((type) => type.startsWith('azure-native:') && type !== GRANT)
    .map((type) => {
      const arm = ARM[type.slice('azure-native:'.length)]
      if (arm === undefined) throw new Error(`${type} is not in the table: the deployer has no right on it`)
      return arm
    })
const made = ({ actions }: CustomRole) =>
  actions.filter((action) => action.endsWith('/write')).map((action) => action.replace(/\/write$/, ''))

describe('rights against the committed plans', () => {
  test('the deploying identity may create, read and delete each type of a platform, and no type outside the plans', () => {
    const needed = new Set(armTypes(typesOf('dev', 'prod')))

    for (const type of needed)
      for (const verb of ['read', 'write', 'delete']) expect(DEPLOYER.actions).toContain(`${type}/${verb}`)
    expect(made(DEPLOYER).filter((type) => !needed.has(type) && !BY_CONFIG.includes(type))).toEqual([])
  })

  test('the preview identity may create the resources of a slice and nothing else', () => {
    const types = typesOf('pr-example')

    expect(made(role('previewer')).sort()).toEqual([...new Set(armTypes(types))].sort())
    const kinds = [...types]
      .filter((type) => type.startsWith('kubernetes:'))
      .map((type) => `${type.split(':').at(-1)?.toLowerCase()}s`)
    const objects = role('slice maker')
      .dataActions.filter((action) => action.endsWith('/write'))
      .map((action) => action.split('/').at(-2))
    expect(objects.sort()).toEqual(kinds.sort())
  })

  test.each([
    ['dev', 'dev', 'up'],
    ['prod', 'prod', 'up'],
    ['pr-example', 'dev', 'preview'],
  ])('every role that %s grants may be granted, to those to whom it may', (...[stack, environment, duty]) => {
    const config = stateConfigOf(environment)
    const grants = planOf(stack).resources.filter(({ type }) => type === GRANT)
    const roles = grants.map(({ inputs }) => String(inputs['roleDefinitionId']).split('/').at(-1) ?? '')

    expect(roles.length).toBeGreaterThan(1)
    expect(roles.filter((guid) => !grantableRolesOf(config, duty).includes(guid))).toEqual([])
    const condition = grantConditionOf(config, duty)
    const principals = new Set(grants.map(({ inputs }) => String(inputs['principalType'])))
    expect([...principals].filter((kind) => !condition.includes(`'${kind}'`))).toEqual([])
    expect(condition).not.toContain("'User'")
  })

  test('the identities of a slice are in the resource group that the preview identity may write', () => {
    const groups = planOf('pr-example')
      .resources.filter(({ type }) => type.startsWith('azure-native:managedidentity:'))
      .map(({ inputs }) => inputs['resourceGroupName'])

    expect(new Set(groups)).toEqual(new Set(['agentweaver-dev-previews']))
  })

  /**
   * Kinds that Azure's built-in RBAC Reader role for clusters can read (learn.microsoft.com, built-in roles,
   * containers).
   */
  const BUILT_IN_READER = [
    'apps/deployments',
    'namespaces',
    'networking.k8s.io/networkpolicies',
    'policy/poddisruptionbudgets',
    'resourcequotas',
    'serviceaccounts',
    'services',
  ]
  const BUILT_IN_GROUPS = [
    'apiextensions.k8s.io',
    'apps',
    'core',
    'networking.k8s.io',
    'policy',
    'rbac.authorization.k8s.io',
  ]

  test.each(['dev', 'prod'])(
    'the planning identity of %s reads every object of the cluster that the program declares',
    (stack) => {
      const kinds = planOf(stack).resources.flatMap(({ type }) => {
        const [, group = '', kind = ''] = /^kubernetes:([^/]+)\/\w+:(\w+)$/.exec(type) ?? []
        if (kind === '') return []
        const plural = `${kind.toLowerCase()}s`.replace(/ys$/, 'ies')
        if (!BUILT_IN_GROUPS.includes(group)) return ['customresources']
        return [group === 'core' ? plural : `${group}/${plural}`]
      })
      const readable = role('cluster planner').dataActions.map((action) =>
        action.replace(/^Microsoft\.ContainerService\/managedClusters\/(.*)\/read$/, '$1'),
      )

      expect(kinds).toContain('customresources')
      expect(kinds.filter((kind) => ![...BUILT_IN_READER, ...readable].includes(kind))).toEqual([])
    },
  )
})
