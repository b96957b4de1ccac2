import { placeholderValues } from '../../charts-src/environment/placeholder-values.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor } from '../../policies/agent/egress/targets.ts'
import type { Target } from './sandbox.ts'

/** The class of sandboxes that is probed, and the destinations that its pods may reach. */
export interface Listed {
  readonly kind: SandboxKind
  readonly targets: readonly Target[]
}

/**
 * Finds the first class with allowed destinations in the environment's network policies: names, or the egress proxy. In a
 * class without one, a failed connection would prove nothing. Returns undefined if no class has one.
 */
export function listedDestinations(environment: Environment): Listed | undefined {
  const { mode, proxyAddress } = environment.egress
  if (mode === 'proxy' && proxyAddress !== undefined)
    return { kind: 'command', targets: [{ host: proxyAddress, port: EGRESS_PROXY_PORT }] }
  const { classes } = resolveEgress(readEgressPolicy(), placeholderValues(environment))
  return SandboxKind.options
    .map((kind) => ({ kind, targets: destinationsFor(classes[kind], 'fqdn').flatMap(targetsOf) }))
    .find(({ targets }) => targets.length > 0)
}

/** Skips patterns such as `*.example.com`, which cannot be looked up. */
const targetsOf = ({
  host,
  ports,
}: {
  readonly host: string
  readonly ports: readonly number[]
}): Target[] => (host.startsWith('*') ? [] : ports.map((port) => ({ host, port })))
