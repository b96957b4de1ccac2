import { isUnknown, type PlannedValue } from '../../../contracts/planned-resource.ts'
import {
  asList,
  type Demand,
  demand,
  isFalse,
  isNotTrue,
  isOneOf,
  isTrue,
  isWithin,
  ofType,
  originTypes,
  problem,
  valueAt,
} from '../read.ts'
import type { Problem, RuleContext, RuledPlan, RuledResource, StackRule } from '../rule.ts'
import { DATABASE, REGISTRY, STACK_REFERENCE, STORAGE, VAULT } from '../types.ts'

type Check = (resource: RuledResource, context: RuleContext) => readonly Problem[]

const demands = (type: string, paths: Readonly<Record<string, Demand>>) => ({
  types: [type],
  check: (resource: RuledResource) =>
    Object.entries(paths).flatMap(([path, wanted]) => demand(resource, path, wanted)),
})

const isEmptyList: Demand = {
  holds: (value) => value === undefined || (Array.isArray(value) && value.length === 0),
  remedy: 'leave it out: use role assignments',
}
const hasNoWideRule: Demand = {
  holds: (value) =>
    asList(value).every((rule) => isNarrow(valueAt(rule, 'value') ?? valueAt(rule, 'iPAddressOrRange'))),
  remedy: 'name addresses or ranges of a /8 or narrower',
}
const isNarrow = (value: PlannedValue | undefined) =>
  typeof value === 'string' && Number(value.split('/')[1] ?? 32) >= 8

const isSet: Demand = { holds: (value) => typeof value === 'string' && value !== '', remedy: 'set it' }

const isOff: Demand = {
  holds: (value) => value === undefined || value === 'disabled',
  remedy: 'leave it out: it cannot be combined with retentionPolicy',
}

/** A registry cannot have retention and soft deletion at the same time. */
const registry: Check = (resource) => {
  const hasRetention = !isOff.holds(valueAt(resource.inputs, 'policies.retentionPolicy.status'))
  return [
    ...demand(resource, 'adminUserEnabled', isFalse),
    ...demand(resource, 'anonymousPullEnabled', isNotTrue),
    ...(hasRetention ? demand(resource, 'policies.softDeletePolicy.status', isOff) : []),
  ]
}

const premium: Check = (resource, { environment }) =>
  environment !== 'production'
    ? []
    : [
        ...demand(resource, 'sku.name', isOneOf('Premium')),
        ...demand(resource, 'policies.retentionPolicy.status', isOneOf('enabled')),
      ]

/** Only file storage accounts may be mounted without TLS (NFS) or with the account's key (SMB). */
const storage: Check = (resource) => {
  const isFiles = valueAt(resource.inputs, 'kind') === 'FileStorage'
  const isNotFalse: Demand = { holds: (value) => value !== false, remedy: 'leave it out or set it to true' }
  return [
    ...demand(resource, 'minimumTlsVersion', isOneOf('TLS1_2', 'TLS1_3')),
    ...demand(resource, 'allowBlobPublicAccess', isFalse),
    ...demand(resource, 'networkRuleSet.defaultAction', isOneOf('Deny')),
    ...demand(resource, 'networkRuleSet.ipRules', hasNoWideRule),
    ...(isFiles ? [] : demand(resource, 'enableHttpsTrafficOnly', isNotFalse)),
    ...(isFiles ? [] : demand(resource, 'allowSharedKeyAccess', isFalse)),
  ]
}

const SUBNET = 'azure-native:network:Subnet'
const SUBNET_ORIGINS = [SUBNET, 'azure-native:network:VirtualNetwork', STACK_REFERENCE]

/** A server with a delegated subnet and a private DNS zone has no public address. */
const privateDatabase: Check = (resource) => [
  ...named(resource, SUBNET_ID, 'is not set: use a subnet that is delegated to PostgreSQL'),
  ...named(resource, 'network.privateDnsZoneArmResourceId', 'is not set: use a private DNS zone'),
  ...demand(resource, 'network.publicNetworkAccess', isOneOf('Disabled', undefined)),
]

const SUBNET_ID = 'network.delegatedSubnetResourceId'

function named(resource: RuledResource, path: string, message: string): Problem[] {
  const value = valueAt(resource.inputs, path)
  return isUnknown(value) || isSet.holds(value) ? [] : [problem(resource, path, message)]
}

/** An unknown subnet must come from a network of this plan, or from the stack of the network layer. */
function subnetsToCome(plan: RuledPlan): Problem[] {
  return ofType(plan, DATABASE)
    .filter(({ inputs }) => isUnknown(valueAt(inputs, SUBNET_ID)))
    .filter((one) => !originTypes(plan, one, 'network').some((type) => SUBNET_ORIGINS.includes(type)))
    .map((one) =>
      problem(
        one,
        SUBNET_ID,
        'does not come from a subnet of this plan: use a subnet that is delegated to PostgreSQL',
      ),
    )
}

const FIREWALL = 'azure-native:dbforpostgresql:FirewallRule'

const prodDatabase: Check = (resource, { environment }) =>
  environment !== 'production'
    ? []
    : [
        ...demand(resource, 'highAvailability.mode', isOneOf('ZoneRedundant')),
        ...demand(resource, 'backup.backupRetentionDays', isWithin(14, 35)),
      ]

const ACCESS_POLICY = 'azure-native:keyvault:AccessPolicy'

export const DATA_RULES: readonly StackRule[] = [
  {
    number: 18,
    name: 'kv-rbac',
    level: 'mandatory',
    requires: 'a vault uses Azure RBAC',
    reason: 'the SDK defaults to `false`, and then access policies decide',
    resource: demands(VAULT, { 'properties.enableRbacAuthorization': isTrue }),
  },
  {
    number: 19,
    name: 'kv-purge-protection',
    level: 'mandatory',
    requires: 'deleted vaults and secrets can be restored, and no identity can purge them',
    reason: 'the keys of state and users survive a mistaken deletion',
    resource: demands(VAULT, {
      'properties.enablePurgeProtection': isTrue,
      'properties.enableSoftDelete': {
        holds: (value) => value !== false,
        remedy: 'leave it out or set it to true',
      },
      'properties.softDeleteRetentionInDays': {
        holds: (value) => value === undefined || isWithin(7, 90).holds(value),
        remedy: 'set it to 7 to 90',
      },
    }),
  },
  {
    number: 20,
    name: 'kv-network-deny',
    level: 'mandatory',
    requires: 'a vault is closed to networks that are not listed',
    reason: 'a stolen token does not work from other networks',
    resource: demands(VAULT, {
      'properties.networkAcls.defaultAction': isOneOf('Deny'),
      'properties.networkAcls.ipRules': hasNoWideRule,
    }),
  },
  {
    number: 21,
    name: 'kv-no-access-policies',
    level: 'mandatory',
    requires: 'a vault has no access policies, and machines, disks and templates have no special access',
    reason: 'role assignments alone decide which identity may read a secret',
    resource: demands(VAULT, {
      'properties.accessPolicies': isEmptyList,
      'properties.enabledForDeployment': isNotTrue,
      'properties.enabledForDiskEncryption': isNotTrue,
      'properties.enabledForTemplateDeployment': isNotTrue,
    }),
    stack: (plan) =>
      ofType(plan, ACCESS_POLICY).map((policy) =>
        problem(policy, '', 'is an access policy: assign a role instead'),
      ),
  },
  {
    number: 22,
    name: 'acr-closed',
    level: 'mandatory',
    requires:
      'a registry has no administrator account, no anonymous pull, and retention or soft deletion but not both',
    reason: 'each pull of an image has a named identity; Azure rejects the combination',
    resource: { types: [REGISTRY], check: registry },
  },
  {
    number: 22,
    name: 'acr-premium',
    level: 'advisory',
    requires: 'in production a registry is Premium and deletes untagged images',
    reason: 'it can be private, and its size stays bounded',
    resource: { types: [REGISTRY], check: premium },
  },
  {
    number: 23,
    name: 'storage',
    level: 'mandatory',
    requires:
      'storage accounts require TLS 1.2 or later, have no public blobs, are closed to networks that are not listed, and accept no account key (except file storage)',
    reason: 'an account key is an administrator without a name',
    resource: { types: [STORAGE], check: storage },
  },
  {
    number: 24,
    name: 'pg-auth',
    level: 'mandatory',
    requires: 'only Entra authenticates to the database',
    reason: 'there is no password that could leak',
    resource: demands(DATABASE, {
      'authConfig.passwordAuth': isOneOf('Disabled'),
      'authConfig.activeDirectoryAuth': isOneOf('Enabled'),
    }),
  },
  {
    number: 25,
    name: 'pg-private',
    level: 'mandatory',
    requires: 'the database has a delegated subnet and a private DNS zone, and no firewall rules',
    reason: 'it has no address on the internet',
    resource: { types: [DATABASE], check: privateDatabase },
    stack: (plan) => [
      ...subnetsToCome(plan),
      ...ofType(plan, FIREWALL).map((rule) => problem(rule, '', 'opens a database to addresses: remove it')),
    ],
  },
  {
    number: 26,
    name: 'pg-prod',
    level: 'mandatory',
    requires: 'in production the database has two zones and backups for 14 days',
    reason: 'runs and audit records survive the loss of a zone and a failed migration',
    resource: { types: [DATABASE], check: prodDatabase },
  },
]
