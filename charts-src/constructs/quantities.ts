import type { ContainerSize } from '../environment/schema.ts'

/** Uses the API server's canonical spelling, so that applying the same tree again changes nothing. */
export const millis = (value: number) => (value % 1000 === 0 ? String(value / 1000) : `${value}m`)
export const mib = (value: number) => (value % 1024 === 0 ? `${value / 1024}Gi` : `${value}Mi`)

/** Memory request and limit are equal: in a VM-backed pod the limit is the size of the VM. */
export function containerResources({ cpuMillis, maxCpuMillis, memoryMib, ephemeralMib }: ContainerSize) {
  const fixed = { memory: mib(memoryMib), 'ephemeral-storage': mib(ephemeralMib) }
  return {
    requests: { cpu: millis(cpuMillis), ...fixed },
    limits: { cpu: millis(maxCpuMillis), ...fixed },
  }
}
