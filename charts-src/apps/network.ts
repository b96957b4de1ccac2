import type { Construct } from 'constructs'
import { names } from '../../contracts/names.ts'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { placeholderValues } from '../environment/placeholder-values.ts'
import type { Environment } from '../environment/schema.ts'
import { addControlPlanePolicies } from '../network/control-plane.ts'
import { addEgressProxy } from '../network/egress-proxy.ts'
import { addNetworkPolicy } from '../network/policy-objects.ts'
import { addSandboxPolicies } from '../network/sandboxes.ts'

/**
 * Every network policy of an environment: a default deny in both directions for each namespace, which works
 * without the other policies, plus the allowed connections. Names come from `policies/agent/egress.yaml`.
 */
export function addNetwork(scope: Construct, environment: Environment, egress: EgressPolicy): void {
  const resolved = resolveEgress(egress, placeholderValues(environment))
  const { slice } = environment
  const { controlPlane, sandboxes, egress: proxies } = names(slice).namespaces
  for (const namespace of [controlPlane, sandboxes, proxies]) {
    const place = { slice, namespace, name: 'default-deny' }
    addNetworkPolicy(scope, place, { podSelector: {}, policyTypes: ['Ingress', 'Egress'] })
  }
  addSandboxPolicies(scope, environment, resolved)
  addControlPlanePolicies(scope, environment)
  addEgressProxy(scope, environment, resolved)
}
