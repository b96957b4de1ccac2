import { SYSTEM_TAINT } from '../../../contracts/labels.ts'
import { isUnknown, type PlannedValue } from '../../../contracts/planned-resource.ts'
import { poolsOf, readSize } from '../pools.ts'
import {
  asList,
  type Demand,
  demand,
  isOneOf,
  isTrue,
  isWithin,
  ofType,
  originsOf,
  problem,
  valueAt,
} from '../read.ts'
import type { Problem, RuleContext, RuledPlan, RuledResource, StackRule } from '../rule.ts'
import { CLUSTER, MAINTENANCE } from '../types.ts'

type Check = (resource: RuledResource, context: RuleContext) => readonly Problem[]

const clusters = (check: Check) => ({ types: [CLUSTER], check })
const demands = (paths: Readonly<Record<string, Demand>>) =>
  clusters((resource) => Object.entries(paths).flatMap(([path, wanted]) => demand(resource, path, wanted)))

const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const isGuid: Demand = {
  holds: (value) => typeof value === 'string' && GUID.test(value),
  remedy: 'set it to the id of the tenant',
}

/**
 * Ranges wider than this never belong to one organisation. The limit also rejects the Internet split into two halves.
 */
const WIDEST_PREFIX = 8

const isNarrow = (value: PlannedValue): boolean => {
  const [address = '', bits = '32'] = typeof value === 'string' ? value.split('/') : []
  return /^\d+(?:\.\d+){3}$/.test(address) && /^\d+$/.test(bits) && Number(bits) >= WIDEST_PREFIX
}
const areNarrow: Demand = {
  holds: (value) => asList(value).length > 0 && asList(value).every(isNarrow),
  remedy: `list the IPv4 ranges that may reach the API server, none wider than /${WIDEST_PREFIX}, or make it private`,
}

const apiExposure: Check = (resource) => {
  const isPrivate = valueAt(resource.inputs, 'apiServerAccessProfile.enablePrivateCluster') === true
  return [
    ...demand(resource, 'apiServerAccessProfile.disableRunCommand', isTrue),
    ...(isPrivate ? [] : demand(resource, 'apiServerAccessProfile.authorizedIPRanges', areNarrow)),
  ]
}

/**
 * The cluster's `egress` tag names the egress mode of sandboxes. Without the tag, the requirements of mode `fqdn`
 * apply.
 */
const fqdn: Check = (resource) => {
  const mode = valueAt(resource.inputs, 'tags.egress') ?? 'fqdn'
  if (mode === 'proxy' || mode === 'closed') return []
  return [
    ...demand(resource, 'tags.egress', isOneOf('fqdn', 'proxy', 'closed', undefined)),
    ...demand(resource, 'networkProfile.advancedNetworking.enabled', isTrue),
    ...demand(resource, 'networkProfile.advancedNetworking.security.enabled', isTrue),
    ...demand(
      resource,
      'networkProfile.advancedNetworking.security.advancedNetworkPolicies',
      isOneOf('FQDN', 'L7'),
    ),
  ]
}

const TAINT = `${SYSTEM_TAINT.key}=${SYSTEM_TAINT.value}:${SYSTEM_TAINT.effect}`
const isSystemSize: Demand = {
  holds: (value) => readSize(value).vcpus >= 4 && !readSize(value).series.startsWith('B'),
  remedy: 'use at least 4 vCPUs and no burstable size',
}
const holdsSystemTaint: Demand = {
  holds: (value) => asList(value).includes(TAINT),
  remedy: `add "${TAINT}", so that only system pods run there`,
}

const systemPool: Check = (resource, { environment }) => {
  const pools = poolsOf(resource)
  if (pools.length === 0) {
    return [
      problem(
        resource,
        'agentPoolProfiles',
        'has no pool that is known while planning: add one with mode "System"',
      ),
    ]
  }
  const least = environment === 'production' ? 3 : 2
  return pools.flatMap(({ at }) => [
    ...demand(resource, `${at}mode`, isInline),
    ...demand(resource, `${at}nodeTaints`, holdsSystemTaint),
    ...demand(resource, `${at}vmSize`, isSystemSize),
    ...demand(resource, `${at}minCount`, isWithin(least, Number.POSITIVE_INFINITY)),
  ])
}

/** Azure can neither add nor change user pools through the cluster resource (pulumi-azure-native 1686, 4264). */
const isInline: Demand = {
  holds: (value) => value === 'System',
  remedy: 'set it to "System", and create other pools as separate resources',
}

/** AKS accepts only these names. */
const WINDOWS = ['aksManagedAutoUpgradeSchedule', 'aksManagedNodeOSUpgradeSchedule']

function maintenance(plan: RuledPlan): Problem[] {
  return ofType(plan, CLUSTER).flatMap((cluster) => {
    const own = ofType(plan, MAINTENANCE).filter((window) => belongs(plan, window, cluster))
    const names = own.map(({ inputs }) => inputs['configName'])
    return WINDOWS.filter((name) => !names.includes(name)).map((name) =>
      problem(
        cluster,
        '',
        `has no MaintenanceConfiguration "${name}": upgrades could start at any hour; add it`,
      ),
    )
  })
}

function belongs(plan: RuledPlan, resource: RuledResource, cluster: RuledResource): boolean {
  const name = resource.inputs['resourceName']
  if (typeof name === 'string') return name === cluster.inputs['resourceName']
  const isFromCluster = originsOf(plan, resource, 'resourceName').includes(cluster.urn)
  return isFromCluster && (name === undefined || isUnknown(name))
}

export const CLUSTER_RULES: readonly StackRule[] = [
  {
    number: 6,
    name: 'cluster-network',
    level: 'mandatory',
    requires: 'the network is Azure CNI overlay with the data plane and the policies of Cilium',
    reason: 'only Cilium enforces the network policies of sandboxes',
    resource: demands({
      'networkProfile.networkPlugin': isOneOf('azure'),
      'networkProfile.networkPluginMode': isOneOf('overlay'),
      'networkProfile.networkDataplane': isOneOf('cilium'),
      'networkProfile.networkPolicy': isOneOf('cilium'),
    }),
  },
  {
    number: 7,
    name: 'acns-fqdn',
    level: 'mandatory',
    requires:
      'FQDN network policies are on if sandboxes use egress by name (tag `egress` is `fqdn` or not set)',
    reason:
      'without them, every policy with a name blocks its destination, and policies by address allow more than intended',
    resource: clusters(fqdn),
  },
  {
    number: 8,
    name: 'local-accounts',
    level: 'mandatory',
    requires: 'local accounts are off; Entra authenticates, in a fixed tenant, and Azure RBAC authorises',
    reason: 'a local account is an administrator without a name, and it cannot be locked out',
    resource: demands({
      disableLocalAccounts: isTrue,
      'aadProfile.managed': isTrue,
      'aadProfile.enableAzureRBAC': isTrue,
      'aadProfile.tenantID': isGuid,
      enableRBAC: { holds: (value) => value !== false, remedy: 'leave it out or set it to true' },
    }),
  },
  {
    number: 9,
    name: 'api-exposure',
    level: 'mandatory',
    requires: 'the API server is private or open to listed ranges only, and the run-command feature is off',
    reason: 'a client that reaches the API server with a stolen token controls every sandbox',
    resource: clusters(apiExposure),
  },
  {
    number: 10,
    name: 'oidc-wi',
    level: 'mandatory',
    requires: 'the OIDC issuer and workload identity are on',
    reason: 'pods sign in to Azure without a secret',
    resource: demands({
      'oidcIssuerProfile.enabled': isTrue,
      'securityProfile.workloadIdentity.enabled': isTrue,
    }),
  },
  {
    number: 11,
    name: 'system-pool',
    level: 'mandatory',
    requires:
      'the system pool is tainted and has at least two nodes (three in production) of 4 vCPUs or more, not burstable',
    reason: 'DNS and the sandbox controller survive the loss of a node',
    resource: clusters(systemPool),
  },
  {
    number: 13,
    name: 'image-cleaner',
    level: 'mandatory',
    requires: 'unused images are deleted, every 24 to 2160 hours',
    reason: 'node disks do not fill up, and old images with known vulnerabilities go away',
    resource: demands({
      'securityProfile.imageCleaner.enabled': isTrue,
      'securityProfile.imageCleaner.intervalHours': isWithin(24, 2160),
    }),
  },
  {
    number: 14,
    name: 'upgrades',
    level: 'mandatory',
    requires: 'Kubernetes patches and node images are upgraded automatically, inside two maintenance windows',
    reason: 'known vulnerabilities are fixed, at a planned hour',
    resource: demands({
      'autoUpgradeProfile.upgradeChannel': isOneOf('patch', 'stable'),
      'autoUpgradeProfile.nodeOSUpgradeChannel': isOneOf('SecurityPatch', 'NodeImage'),
    }),
    stack: maintenance,
  },
  {
    number: 17,
    name: 'skip-local-storage',
    level: 'mandatory',
    requires: 'the autoscaler may also remove nodes whose pods have local volumes',
    reason: 'every sandbox has a local volume, so otherwise no node would ever be removed',
    resource: demands({ 'autoScalerProfile.skipNodesWithLocalStorage': isOneOf('false') }),
  },
]
