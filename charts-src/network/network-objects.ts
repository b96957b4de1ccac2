import { names } from '../../contracts/names.ts'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { placeholderValues } from '../environment/placeholder-values.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { controlPlanePolicies } from './control-plane.ts'
import { egressProxyObjects } from './egress-proxy.ts'
import { networkPolicy } from './policy-objects.ts'
import { sandboxPolicies } from './sandboxes.ts'

/**
 * Every network policy of an environment: a default deny in both directions for each namespace, which works
 * without the other policies, plus the allowed connections.
 */
export function networkObjects(environment: Environment, egress: EgressPolicy): KubeObject[] {
  const resolved = resolveEgress(egress, placeholderValues(environment))
  const { controlPlane, sandboxes, egress: proxies } = names(environment.slice).namespaces
  return [
    ...[controlPlane, sandboxes, proxies].map((namespace) => defaultDeny(environment, namespace)),
    ...sandboxPolicies(environment, resolved),
    ...controlPlanePolicies(environment),
    ...egressProxyObjects(environment, resolved),
  ]
}

const defaultDeny = ({ slice }: Environment, namespace: string): KubeObject =>
  networkPolicy({ slice, namespace, name: 'default-deny' }, { podSelector: {} }, ['Ingress', 'Egress'])
