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
  remedy: 'leave it out: roles decide',
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
  remedy: 'leave it out: it excludes retentionPolicy',
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
  ...named(resource, SUBNET_ID, 'names no subnet: give it one delegated to PostgreSQL'),
  ...named(resource, 'network.privateDnsZoneArmResourceId', 'names no zone: give it a private one'),
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
      problem(one, SUBNET_ID, 'comes from no subnet of this plan: give it one delegated to PostgreSQL'),
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
    says: 'roles decide about a vault',
    protects: 'the SDK sets `false` where nothing is written, and access policies would decide',
    resource: demands(VAULT, { 'properties.enableRbacAuthorization': isTrue }),
  },
  {
    number: 19,
    name: 'kv-purge-protection',
    level: 'mandatory',
    says: 'a vault and its secrets can be had back after a deletion, by nobody made final',
    protects: 'the keys of state and users outlive a mistake',
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
    says: 'a vault is closed to every network that is not named',
    protects: 'a stolen token does not open it from elsewhere',
    resource: demands(VAULT, {
      'properties.networkAcls.defaultAction': isOneOf('Deny'),
      'properties.networkAcls.ipRules': hasNoWideRule,
    }),
  },
  {
    number: 21,
    name: 'kv-no-access-policies',
    level: 'mandatory',
    says: 'a vault has no access policies, and lets no machine, disk or template read it by another way',
    protects: 'there is one place that says who may read a secret',
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
    says: 'a registry has no administrator and no anonymous pull, and retention or soft deletion but not both',
    protects: 'images are pulled by identities that can be named',
    resource: { types: [REGISTRY], check: registry },
  },
  {
    number: 22,
    name: 'acr-premium',
    level: 'advisory',
    says: 'in production a registry is Premium and clears untagged images',
    protects: 'it can be private, and does not grow for ever',
    resource: { types: [REGISTRY], check: premium },
  },
  {
    number: 23,
    name: 'storage',
    level: 'mandatory',
    says: 'storage speaks TLS 1.2 or later, has no public blobs, is closed to networks not named, and takes no account key (files apart)',
    protects: 'an account key is an administrator without a name',
    resource: { types: [STORAGE], check: storage },
  },
  {
    number: 24,
    name: 'pg-auth',
    level: 'mandatory',
    says: 'only Entra signs in to the database',
    protects: 'there is no password to leak',
    resource: demands(DATABASE, {
      'authConfig.passwordAuth': isOneOf('Disabled'),
      'authConfig.activeDirectoryAuth': isOneOf('Enabled'),
    }),
  },
  {
    number: 25,
    name: 'pg-private',
    level: 'mandatory',
    says: 'the database is in a subnet of its own with a private zone, without firewall rules',
    protects: 'it has no address on the Internet',
    resource: { types: [DATABASE], check: privateDatabase },
    stack: (plan) => [
      ...subnetsToCome(plan),
      ...ofType(plan, FIREWALL).map((rule) =>
        problem(rule, '', 'opens a database to addresses: take it out'),
      ),
    ],
  },
  {
    number: 26,
    name: 'pg-prod',
    level: 'mandatory',
    says: 'in production the database is in two zones and kept for 14 days',
    protects: 'runs and audits outlive a zone and a bad migration',
    resource: { types: [DATABASE], check: prodDatabase },
  },
]
