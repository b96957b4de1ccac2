import { names } from '../../contracts/names.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { isPolicy } from '../../reachability/compile-policies.ts'
import { createEvaluator } from '../../reachability/evaluate.ts'
import type { Evaluator, PolicyFault } from '../../reachability/model.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import type { Topology } from './endpoints.ts'

/** A rendered tree with the evaluators that the assertions query. */
export interface World {
  readonly environment: Environment
  readonly egress: ResolvedEgress
  readonly topology: Topology
  readonly objects: readonly KubeObject[]
  readonly evaluator: Evaluator
  /** The same policies without their deny rules. */
  readonly bare: Evaluator
  /** The same policies plus one allow-all policy in each namespace. */
  readonly opened: Evaluator
}

export type WorldOutcome =
  | { readonly ok: true; readonly world: World }
  | { readonly ok: false; readonly faults: readonly PolicyFault[] }

export function createWorld(
  objects: readonly KubeObject[],
  context: Pick<World, 'environment' | 'egress' | 'topology'>,
): WorldOutcome {
  const { environment, topology } = context
  const rendered = createEvaluator(objects, topology.facts)
  if (!rendered.ok) return rendered
  const opened = createEvaluator([...objects, ...broadAllows(environment)], topology.facts)
  if (!opened.ok) return opened
  const bare = createEvaluator(objects.map(withoutDenyRules), topology.facts)
  if (!bare.ok) return bare
  const evaluators = { evaluator: rendered.evaluator, opened: opened.evaluator, bare: bare.evaluator }
  return { ok: true, world: { ...context, objects, ...evaluators } }
}

/** Simulates a policy that an operator adds in an emergency: one per namespace that allows all traffic in both directions. */
function broadAllows({ slice }: Environment): KubeObject[] {
  const { controlPlane, sandboxes, egress } = names(slice).namespaces
  return [controlPlane, sandboxes, egress].map((namespace) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'broad-allow', namespace },
    spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] },
  }))
}

/**
 * A policy with only deny rules still makes its pods default-deny. An empty rule replaces each deny rule to
 * keep that.
 */
function withoutDenyRules(object: KubeObject): KubeObject {
  const spec = object['spec']
  if (!isPolicy(object) || typeof spec !== 'object' || spec === null) return object
  const {
    egressDeny,
    ingressDeny,
    egress = [],
    ingress = [],
    ...rest
  } = spec as Readonly<Record<string, unknown>>
  if (egressDeny === undefined && ingressDeny === undefined) return object
  return {
    ...object,
    spec: {
      ...rest,
      egress: [...(egress as unknown[]), ...(egressDeny === undefined ? [] : [{}])],
      ingress: [...(ingress as unknown[]), ...(ingressDeny === undefined ? [] : [{}])],
    },
  }
}
