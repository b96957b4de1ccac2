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
    says: 'Azure RBAC controls access to a vault',
    protects: 'the default of the SDK is `false`, and access policies would control access instead',
    resource: demands(VAULT, { 'properties.enableRbacAuthorization': isTrue }),
  },
  {
    number: 19,
    name: 'kv-purge-protection',
    level: 'mandatory',
    says: 'a deleted vault and its secrets can be recovered, and no principal can purge them',
    protects: 'the key of the state and the tokens of users survive a mistake',
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
    says: 'a vault rejects every network that is not listed',
    protects: 'a stolen token is useless from another network',
    resource: demands(VAULT, {
      'properties.networkAcls.defaultAction': isOneOf('Deny'),
      'properties.networkAcls.ipRules': hasNoWideRule,
    }),
  },
  {
    number: 21,
    name: 'kv-no-access-policies',
    level: 'mandatory',
    says: 'a vault has no access policies, and virtual machines, disk encryption and templates cannot read it',
    protects: 'one place defines who may read a secret',
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
    says: 'a registry has no administrator account and no anonymous pull, and does not combine retention with soft delete',
    protects: 'every pull can be attributed to an identity',
    resource: { types: [REGISTRY], check: registry },
  },
  {
    number: 22,
    name: 'acr-premium',
    level: 'advisory',
    says: 'in production a registry is Premium and deletes untagged images',
    protects: 'it can be private, and it does not grow without limit',
    resource: { types: [REGISTRY], check: premium },
  },
  {
    number: 23,
    name: 'storage',
    level: 'mandatory',
    says: 'storage requires TLS 1.2 or later, has no public blobs, rejects networks that are not listed, and accepts no account key (except for file shares)',
    protects: 'an account key is an anonymous administrator',
    resource: { types: [STORAGE], check: storage },
  },
  {
    number: 24,
    name: 'pg-auth',
    level: 'mandatory',
    says: 'the database accepts only Entra logins',
    protects: 'no password exists that could leak',
    resource: demands(DATABASE, {
      'authConfig.passwordAuth': isOneOf('Disabled'),
      'authConfig.activeDirectoryAuth': isOneOf('Enabled'),
    }),
  },
  {
    number: 25,
    name: 'pg-private',
    level: 'mandatory',
    says: 'the database has a dedicated subnet and a private DNS zone, and no firewall rules',
    protects: 'it has no public address',
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
    says: 'in production the database runs in two zones and its backups are kept for 14 days',
    protects: 'runs and audit records survive the loss of a zone and a failed migration',
    resource: { types: [DATABASE], check: prodDatabase },
  },
]
