/**
 * What an edit of the program costs in Azure, for each type: an update in place, a replacement, or a refusal. The
 * replace guard reads it before an `up`, the stand-in providers of the tests answer `Diff` and `Update` with it.
 *
 * Sources: `provider/pkg/gen/replacement.go` of azure-native 3.28 for the lists by hand; its generator adds every path
 * parameter and every property that Azure's schemas let be set at creation alone.
 */
interface Immutability {
  /** Paths whose change makes the provider delete and create the resource. A path covers everything below it. */
  readonly replaces: readonly string[]
  /** Paths that the provider would update in place and Azure refuses with `PropertyChangeNotAllowed`. */
  readonly refused?: readonly string[]
}

/** Without the refusals, `replaceOnChanges` (with `deleteBeforeReplace`) is what makes such an edit possible. */
const AGENT_POOL_REFUSED = [
  'availabilityZones',
  'enableFIPS',
  'enableUltraSSD',
  'maxPods',
  'osDiskType',
  'osSKU',
  'vnetSubnetID',
  'workloadRuntime',
]

/** Paths of inputs as the SDK spells them, by type token. Path parameters and `location` come on top. */
export const IMMUTABLE: Readonly<Record<string, Immutability>> = {
  'azure-native:authorization:RoleAssignment': { replaces: ['principalId', 'scope'] },
  'azure-native:containerservice:AgentPool': {
    replaces: ['gpuInstanceProfile', 'networkProfile.nodePublicIPTags', 'vmSize'],
    refused: AGENT_POOL_REFUSED,
  },
  'azure-native:containerservice:ManagedCluster': {
    replaces: [
      'diskEncryptionSetID',
      'dnsPrefix',
      'fqdnSubdomain',
      'linuxProfile',
      'networkProfile.dnsServiceIP',
      'networkProfile.networkDataplane',
      'networkProfile.networkMode',
      'networkProfile.networkPlugin',
      'networkProfile.networkPluginMode',
      'networkProfile.networkPolicy',
      'networkProfile.outboundType',
      'networkProfile.podCidr',
      'networkProfile.serviceCidr',
      'networkProfile.serviceCidrs',
      'nodeResourceGroup',
      'windowsProfile',
    ],
  },
  'azure-native:dbforpostgresql:Server': {
    replaces: [],
    refused: ['network.delegatedSubnetResourceId', 'network.privateDnsZoneArmResourceId'],
  },
  'azure-native:network:PrivateEndpoint': { replaces: ['subnet'] },
  'azure-native:network:PublicIPAddress': { replaces: ['publicIPAddressVersion', 'publicIPPrefix', 'sku'] },
  'azure-native:storage:StorageAccount': { replaces: ['isHnsEnabled'] },
}

/** Parameters of a resource's address in Azure. In every type, another value names another resource. */
export const PATH_PARAMETERS: readonly string[] = ['location', 'resourceGroupName']

const covers = (prefix: string, path: string) =>
  path === prefix || path.startsWith(`${prefix}.`) || path.startsWith(`${prefix}[`)

/**
 * Whether a change of `path` in a resource of `type` replaces it. `names` are the type's own path parameters
 * (`agentPoolName`, `vaultName`), which the caller knows from the resource's address.
 */
export function replacesResource(type: string, path: string, names: readonly string[] = []): boolean {
  const paths = [...(IMMUTABLE[type]?.replaces ?? []), ...PATH_PARAMETERS, ...names]
  return paths.some((prefix) => covers(prefix, path))
}

/** Whether Azure refuses to change `path` of a resource that exists. */
export function refusesChange(type: string, path: string): boolean {
  return (IMMUTABLE[type]?.refused ?? []).some((prefix) => covers(prefix, path))
}
