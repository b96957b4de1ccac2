/** The properties in the name of an Azure machine size. Memory and disks in binary units. */
export interface VmSize {
  readonly name: string
  readonly vcpus: number
  readonly memoryMib: number
  /** Size in GiB of a local disk that can hold an ephemeral OS disk; 0 without such a disk. */
  readonly tempDiskGib: number
  /** Name of the vCPU quota that it counts against, as `az vm list-usage` spells it. */
  readonly family: string
  readonly isArm: boolean
  readonly isBurstable: boolean
  /** Runs machines in machines, which Kata pods are. */
  readonly isKataCapable: boolean
}

const NAME = /^Standard_([A-Z])(\d+)([a-z]*)_v(\d+)$/
/** MiB per vCPU of the general-purpose, memory and burstable series. */
const MEMORY_PER_VCPU: Readonly<Record<string, number>> = { D: 4096, E: 8192, B: 4096, F: 2048 }
/** GiB of local disk per vCPU: Azure's pages of the Dsv3, Ddsv4 and Ddsv5 series. */
const TEMP_PER_VCPU = { v3: 8, later: 37.5 }

/**
 * Parses a size such as `Standard_D8ds_v5`. Undefined for an invalid spelling or an unknown series. Kata-capable are
 * the Intel D and E series of versions 3 to 5 and Dads_v7 (AKS change log 2026-06-19).
 */
export function parseVmSize(name: string): VmSize | undefined {
  const [, series = '', count = '', features = '', version = ''] = NAME.exec(name) ?? []
  const perVcpu = MEMORY_PER_VCPU[series]
  if (perVcpu === undefined) return undefined
  const vcpus = Number(count)
  const hasDisk = features.includes('d')
  const tempPerVcpu = version === '3' ? TEMP_PER_VCPU.v3 : hasDisk ? TEMP_PER_VCPU.later : 0
  return {
    name,
    vcpus,
    memoryMib: vcpus * perVcpu,
    tempDiskGib: Math.floor(vcpus * tempPerVcpu),
    family: `standard${series}${features.toUpperCase()}v${version}Family`,
    isArm: features.includes('p'),
    isBurstable: series === 'B',
    isKataCapable: isKataCapable({ series, features, version }),
  }
}

function isKataCapable(size: { series: string; features: string; version: string }): boolean {
  const isIntel = /^d?s$/.test(size.features) && /^[345]$/.test(size.version)
  const isDadsV7 = size.series === 'D' && size.features === 'ads' && size.version === '7'
  return ['D', 'E'].includes(size.series) && (isIntel || isDadsV7)
}

/** The tier of PostgreSQL servers that a size belongs to. */
export function databaseTier(size: string): 'Burstable' | 'GeneralPurpose' | 'MemoryOptimized' {
  if (size.startsWith('Standard_B')) return 'Burstable'
  return size.startsWith('Standard_E') ? 'MemoryOptimized' : 'GeneralPurpose'
}
