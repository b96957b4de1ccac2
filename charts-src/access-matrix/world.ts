import { names } from '../../contracts/names.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { isPolicy } from '../../reachability/compile-policies.ts'
import { createEvaluator } from '../../reachability/evaluate.ts'
import type { Evaluator, PolicyFault } from '../../reachability/model.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import type { Stage } from './stage.ts'

/** A rendered tree with everything that is asked about it. */
export interface World {
  readonly environment: Environment
  readonly egress: ResolvedEgress
  readonly stage: Stage
  readonly objects: readonly KubeObject[]
  readonly evaluator: Evaluator
  /** The same policies without their refusals. */
  readonly bare: Evaluator
  /** The same policies beside one in each namespace that allows everything. */
  readonly opened: Evaluator
}

export type WorldOutcome =
  | { readonly ok: true; readonly world: World }
  | { readonly ok: false; readonly faults: readonly PolicyFault[] }

export function createWorld(
  objects: readonly KubeObject[],
  context: Pick<World, 'environment' | 'egress' | 'stage'>,
): WorldOutcome {
  const { environment, stage } = context
  const rendered = createEvaluator(objects, stage.facts)
  if (!rendered.ok) return rendered
  const opened = createEvaluator([...objects, ...broadAllows(environment)], stage.facts)
  if (!opened.ok) return opened
  const bare = createEvaluator(objects.map(withoutRefusals), stage.facts)
  if (!bare.ok) return bare
  const evaluators = { evaluator: rendered.evaluator, opened: opened.evaluator, bare: bare.evaluator }
  return { ok: true, world: { ...context, objects, ...evaluators } }
}

/** The mistake of somebody in a hurry: a policy that allows everything, both ways, to every pod of a namespace. */
function broadAllows({ slice }: Environment): KubeObject[] {
  const { controlPlane, sandboxes, egress } = names(slice).namespaces
  return [controlPlane, sandboxes, egress].map((namespace) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'in-a-hurry', namespace },
    spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] },
  }))
}

/** A policy that only refuses still closes: an empty rule in place of each refusal keeps that. */
function withoutRefusals(object: KubeObject): KubeObject {
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
