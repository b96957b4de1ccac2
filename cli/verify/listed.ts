import { placeholderValues } from '../../charts-src/environment/placeholder-values.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor } from '../../policies/agent/egress/targets.ts'
import type { Target } from './check.ts'

/** The class of sandboxes that is probed, and where its pods may connect to by name. */
export interface Listed {
  readonly kind: SandboxKind
  readonly targets: readonly Target[]
}

/**
 * The first class that has destinations in the network policies that `policies/agent/egress.yaml` makes for an environment.
 * A class without one reaches nothing, so silence in it shows no fence. Undefined if no class has one.
 */
export function listedDestinations(environment: Environment): Listed | undefined {
  const { classes } = resolveEgress(readEgressPolicy(), placeholderValues(environment))
  return SandboxKind.options
    .map((kind) => ({ kind, targets: destinationsFor(classes[kind], 'fqdn').flatMap(targetsOf) }))
    .find(({ targets }) => targets.length > 0)
}

/** A pattern such as `*.example.com` is no name that a probe could look up. */
const targetsOf = ({
  host,
  ports,
}: {
  readonly host: string
  readonly ports: readonly number[]
}): Target[] => (host.startsWith('*') ? [] : ports.map((port) => ({ host, port })))
