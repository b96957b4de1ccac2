import { addressAt, parseCidr } from './cidr.ts'

/** AKS has the service of its DNS at the tenth address of the services' range. */
const DNS_OFFSET = 10

interface Ranges {
  readonly podCidr: string
  readonly serviceCidr: string
}

/**
 * Overlay addresses, Cilium as data plane and policy engine. Every field of it is immutable for the provider, also
 * where Azure could change it in place.
 */
export function networkProfile({ podCidr, serviceCidr }: Ranges, advancedPolicies: 'None' | 'FQDN' | 'L7') {
  const services = parseCidr(serviceCidr)
  if (services === undefined) throw new TypeError(`${serviceCidr} is no range`)
  return {
    networkPlugin: 'azure',
    networkPluginMode: 'overlay',
    networkDataplane: 'cilium',
    networkPolicy: 'cilium',
    podCidr,
    serviceCidr,
    dnsServiceIP: addressAt(services, DNS_OFFSET),
    loadBalancerSku: 'standard',
    outboundType: 'userAssignedNATGateway',
    advancedNetworking: {
      enabled: true,
      observability: { enabled: true },
      security: { enabled: advancedPolicies !== 'None', advancedNetworkPolicies: advancedPolicies },
    },
  }
}

type Access =
  | { readonly access: 'private'; readonly publicName: boolean }
  | { readonly access: 'authorizedRanges'; readonly ranges: readonly string[] }

/**
 * The API server has an address in the network either way, so that nodes and policies know it; outside the network it
 * is closed, or open to the named ranges.
 */
export function apiServerAccess<Id>(api: Access, subnetId: Id) {
  const integration = { enableVnetIntegration: true, subnetId, disableRunCommand: true } as const
  if (api.access === 'private') {
    return {
      publicNetworkAccess: 'Disabled',
      apiServerAccessProfile: {
        ...integration,
        enablePrivateCluster: true,
        enablePrivateClusterPublicFQDN: api.publicName,
        privateDNSZone: 'system',
      },
    }
  }
  return {
    publicNetworkAccess: 'Enabled',
    apiServerAccessProfile: {
      ...integration,
      enablePrivateCluster: false,
      authorizedIPRanges: [...api.ranges],
    },
  }
}

/** Which name of the API server a credential is to hold: the private one is found in the network alone. */
export const hasPublicName = (api: Access): boolean => api.access === 'private' && api.publicName

/** Azure expects these values as text. */
export const AUTO_SCALER = {
  expander: 'least-waste',
  // Every sandbox has an emptyDir: by default each would hold its node for ever.
  skipNodesWithLocalStorage: 'false',
  skipNodesWithSystemPods: 'true',
  balanceSimilarNodeGroups: 'false',
  scanInterval: '10s',
  scaleDownUnneededTime: '10m',
  scaleDownDelayAfterAdd: '10m',
  scaleDownUtilizationThreshold: '0.5',
  maxGracefulTerminationSec: '600',
  maxNodeProvisionTime: '15m',
} as const

const weekly = (dayOfWeek: 'Saturday' | 'Sunday') => ({ weekly: { dayOfWeek, intervalWeeks: 1 } }) as const

/** When Azure may upgrade. The names are fixed words; at least four hours, or it does not begin. */
export const MAINTENANCE = [
  {
    configName: 'aksManagedAutoUpgradeSchedule',
    schedule: weekly('Saturday'),
    durationHours: 6,
    startTime: '02:00',
  },
  {
    configName: 'aksManagedNodeOSUpgradeSchedule',
    schedule: weekly('Sunday'),
    durationHours: 6,
    startTime: '02:00',
  },
] as const
