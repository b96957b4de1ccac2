import { KATA_NODE_LABEL, KATA_TAINT, SYSTEM_TAINT } from '../../contracts/labels.ts'
import { parseVmSize } from './vm-sizes.ts'

export interface PoolSettings {
  readonly size: string
  readonly min: number
  readonly max: number
  readonly zones: readonly string[]
  readonly maxPods: number
  readonly osDiskGib: number
}

/** A taint as Azure writes it: `sandbox=kata:NoSchedule`. */
const taint = ({ key, value, effect }: { key: string; value: string; effect: string }) =>
  `${key}=${value}:${effect}`

interface Placement<Id> {
  readonly subnetId: Id
  readonly tags: Readonly<Record<string, string>>
}

/** What all pools have: scaled, in zones, with no address of their own on the Internet, and their disks encrypted. */
function commonPool<Id>(pool: PoolSettings, { subnetId, tags }: Placement<Id>) {
  const hasLocalDisk = (parseVmSize(pool.size)?.tempDiskGib ?? 0) >= pool.osDiskGib
  return {
    type: 'VirtualMachineScaleSets',
    vmSize: pool.size,
    osType: 'Linux',
    osDiskType: hasLocalDisk ? 'Ephemeral' : 'Managed',
    osDiskSizeGB: pool.osDiskGib,
    kubeletDiskType: 'OS',
    maxPods: pool.maxPods,
    availabilityZones: [...pool.zones],
    vnetSubnetID: subnetId,
    enableAutoScaling: true,
    minCount: pool.min,
    maxCount: pool.max,
    count: pool.min,
    enableNodePublicIP: false,
    enableEncryptionAtHost: true,
    enableFIPS: false,
    scaleDownMode: 'Delete',
    // On by default from Kubernetes 1.37: a cache of the node answers past Cilium, which then learns no address of a name.
    localDNSProfile: { mode: 'Disabled' },
    tags,
  }
}

const UPGRADE = {
  maxSurge: '1',
  drainTimeoutInMinutes: 30,
  nodeSoakDurationInMinutes: 0,
  undrainableNodeBehavior: 'Cordon',
} as const

/** The pool of the cluster's own add-ons, inline: a cluster is made with one. */
export function systemPool<Id>(pool: PoolSettings, placement: Placement<Id>) {
  return {
    ...commonPool(pool, placement),
    name: 'system',
    mode: 'System',
    osSKU: 'AzureLinux',
    nodeTaints: [taint(SYSTEM_TAINT)],
    upgradeSettings: UPGRADE,
  }
}

/** The control plane, the egress proxies and Gateways. */
export function appPool<Id>(pool: PoolSettings, placement: Placement<Id>) {
  return {
    ...commonPool(pool, placement),
    mode: 'User',
    osSKU: 'AzureLinux',
    upgradeSettings: UPGRADE,
  }
}

/**
 * Sandboxes, each in a machine of its own. Neither FIPS, secure boot, vTPM nor Arm64 go with it, and nothing else runs
 * there: the taint keeps it out.
 */
export function kataPool<Id>(pool: PoolSettings, placement: Placement<Id>) {
  return {
    ...commonPool(pool, placement),
    mode: 'User',
    osSKU: 'AzureLinux',
    workloadRuntime: 'KataVmIsolation',
    nodeLabels: { [KATA_NODE_LABEL.key]: KATA_NODE_LABEL.value },
    nodeTaints: [taint(KATA_TAINT)],
    upgradeSettings: UPGRADE,
  }
}

/** Part of a pool's name: at most 12 characters, of which the number takes two. */
export const poolName = (purpose: 'app' | 'kata', generation: number) => `${purpose}${generation}`
