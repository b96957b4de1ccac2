import { names } from '../../contracts/names.ts'
import { type EgressPolicy, readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { isPolicy } from '../../reachability/compile-policies.ts'
import { placeholderValues } from '../environment/placeholder-values.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { ROWS } from './assertion.ts'
import { assertions } from './assertions.ts'
import { topologyOf } from './endpoints.ts'
import { podsOf } from './pods-of.ts'
import { createWorld, type WorldOutcome } from './world.ts'

/** Builds the endpoints and evaluators for the rendered objects of an environment. */
export function worldOf(
  objects: readonly KubeObject[],
  environment: Environment,
  policy: EgressPolicy = readEgressPolicy(),
): WorldOutcome {
  const egress = resolveEgress(policy, placeholderValues(environment))
  return createWorld(objects, { environment, egress, topology: topologyOf(objects, environment) })
}

/**
 * Returns every reachability fault of a rendered tree, each with the file to open. The result is empty when
 * every policy is understood, Cilium's agent would accept all of them, and every assertion holds.
 */
export function checkReachability(
  objects: readonly KubeObject[],
  environment: Environment,
  policy: EgressPolicy = readEgressPolicy(),
): string[] {
  const outcome = worldOf(objects, environment, policy)
  if (!outcome.ok) {
    return outcome.faults.map(
      ({ policy, path, reason, kind }) =>
        `${fileOf(objects, environment, policy)}: ${path}: ${kind}: ${reason}`,
    )
  }
  const failures = [...assertions(outcome.world)].flatMap(({ row, title, failure }) =>
    failure === undefined
      ? []
      : [`gitops/${environment.name}/network: ${title}, but ${failure} (${ROWS[row]})`],
  )
  return [...unknownWorkloads(objects, environment), ...failures]
}

/** Reports workloads that have no row in the matrix, because no assertion covers them. */
function unknownWorkloads(objects: readonly KubeObject[], environment: Environment): string[] {
  const ours: readonly string[] = Object.values(names(environment.slice).namespaces)
  const known = new Set(
    topologyOf(objects, environment).facts.pods.map(({ namespace, name }) => `${namespace}/${name}`),
  )
  return podsOf(objects)
    .filter(({ namespace, name }) => ours.includes(namespace) && !known.has(`${namespace}/${name}`))
    .map(
      ({ namespace, name }) =>
        `charts-src/access-matrix/endpoints.ts: knows no workload ${namespace}/${name}`,
    )
}

function fileOf(objects: readonly KubeObject[], { name }: Environment, policy: string): string {
  const found = objects
    .filter(isPolicy)
    .find(({ kind, metadata }) => policy === `${kind} ${metadata.namespace ?? ''}/${metadata.name}`)
  if (found === undefined) return policy
  return `gitops/${name}/network/${found.metadata.namespace}/${found.kind}.${found.metadata.name}.yaml`
}
