import type { PodFacts } from './model.ts'
import type { Protocol } from './port-set.ts'

/**
 * Returns the port number that a pod declares for a port name. If a pod declares a name twice, Cilium uses the last
 * number. Since 1.20 pods with different named ports have different identities, so a pod never uses the number of
 * another pod.
 */
export function portNumber(
  { namedPorts = [] }: PodFacts,
  { name, protocol }: { readonly name: string; readonly protocol: Protocol },
): number | undefined {
  const declared = namedPorts.findLast((port) => port.name.toLowerCase() === name)
  return declared?.protocol === protocol ? declared.port : undefined
}
