import type { ContainerSize } from '../environment/schema.ts'

/** Quantities in the spelling that the API server keeps, so that an apply of the same tree changes nothing. */
export const millis = (value: number) => (value % 1000 === 0 ? String(value / 1000) : `${value}m`)
export const mib = (value: number) => (value % 1024 === 0 ? `${value / 1024}Gi` : `${value}Mi`)

/** Memory is request and limit at once: in a VM-backed pod the limit is the machine's size. */
export function containerResources({ cpuMillis, maxCpuMillis, memoryMib, ephemeralMib }: ContainerSize) {
  const fixed = { memory: mib(memoryMib), 'ephemeral-storage': mib(ephemeralMib) }
  return {
    requests: { cpu: millis(cpuMillis), ...fixed },
    limits: { cpu: millis(maxCpuMillis), ...fixed },
  }
}
