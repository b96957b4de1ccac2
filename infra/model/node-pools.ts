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

/** Settings of all pools: autoscaled, zonal, without public addresses, with encrypted disks. */
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
    // On by default from Kubernetes 1.37: the node's cache bypasses Cilium, which then learns no addresses for FQDN
    // rules.
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

/** The pool of the cluster's own add-ons. It is declared inline, because a cluster cannot be created without a pool. */
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
 * The sandbox pool, with one virtual machine per sandbox (Kata). FIPS, secure boot, vTPM and Arm64 are not supported
 * with it. The taint keeps other pods away.
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

/** Part of a pool's name. The limit is 12 characters, two of them for the number. */
export const poolName = (purpose: 'app' | 'kata', generation: number) => `${purpose}${generation}`
