import type { ContainerSize } from '../environment/schema.ts'
import { Quantity } from '../imports/k8s.js'

/** Uses the API server's canonical spelling, so that applying the same tree again changes nothing. */
export const millis = (value: number) =>
  Quantity.fromString(value % 1000 === 0 ? String(value / 1000) : `${value}m`)
export const mib = (value: number) =>
  Quantity.fromString(value % 1024 === 0 ? `${value / 1024}Gi` : `${value}Mi`)
export const count = (value: number) => Quantity.fromString(String(value))

type Quantities = Readonly<Record<string, Quantity>>

/** Memory request and limit are equal: in a VM-backed pod the limit is the size of the VM. */
export function containerResources({ cpuMillis, maxCpuMillis, memoryMib, ephemeralMib }: ContainerSize): {
  readonly requests: Quantities
  readonly limits: Quantities
} {
  const fixed = { memory: mib(memoryMib), 'ephemeral-storage': mib(ephemeralMib) }
  return {
    requests: { cpu: millis(cpuMillis), ...fixed },
    limits: { cpu: millis(maxCpuMillis), ...fixed },
  }
}
