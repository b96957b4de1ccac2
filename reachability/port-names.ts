import type { PodFacts, Protocol } from './model.ts'

/**
 * The number that a pod gives to the name of a port. Cilium keeps one number for each name of a pod, the last that the
 * pod declares, and since 1.20 pods with other named ports are another identity: no pod lends its number to another.
 */
export function portNumber(
  { namedPorts = [] }: PodFacts,
  { name, protocol }: { readonly name: string; readonly protocol: Protocol },
): number | undefined {
  const declared = namedPorts.findLast((port) => port.name.toLowerCase() === name)
  return declared?.protocol === protocol ? declared.port : undefined
}
