import { names } from '../../contracts/names.ts'
import { type EgressPolicy, readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { isPolicy } from '../../reachability/compile-policies.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { placeholderValues } from '../network/network-objects.ts'
import { ROWS } from './assertion.ts'
import { assertions } from './assertions.ts'
import { podsOf } from './pods-of.ts'
import { stageOf } from './stage.ts'
import { createWorld, type WorldOutcome } from './world.ts'

/** The world of an environment's rendered objects, ready to be asked. */
export function worldOf(
  objects: readonly KubeObject[],
  environment: Environment,
  policy: EgressPolicy = readEgressPolicy(),
): WorldOutcome {
  const egress = resolveEgress(policy, placeholderValues(environment))
  return createWorld(objects, { environment, egress, stage: stageOf(objects, environment) })
}

/**
 * What is wrong with who may reach whom in a rendered tree, each with the file to open. Empty where every policy is
 * understood, none would be refused by the agent, and every assertion holds.
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
  const failures = assertions(outcome.world).flatMap(({ row, title, failure }) =>
    failure === undefined
      ? []
      : [`gitops/${environment.name}/network: ${title}, but ${failure} (${ROWS[row]})`],
  )
  return [...unknownWorkloads(objects, environment), ...failures]
}

/** A workload that the matrix does not know is one that nothing was asserted about. */
function unknownWorkloads(objects: readonly KubeObject[], environment: Environment): string[] {
  const ours: readonly string[] = Object.values(names(environment.slice).namespaces)
  const known = new Set(
    stageOf(objects, environment).facts.pods.map(({ namespace, name }) => `${namespace}/${name}`),
  )
  return podsOf(objects)
    .filter(({ namespace, name }) => ours.includes(namespace) && !known.has(`${namespace}/${name}`))
    .map(({ namespace, name }) => `charts-src/access-matrix/stage.ts: knows no workload ${namespace}/${name}`)
}

function fileOf(objects: readonly KubeObject[], { name }: Environment, policy: string): string {
  const found = objects
    .filter(isPolicy)
    .find(({ kind, metadata }) => policy === `${kind} ${metadata.namespace ?? ''}/${metadata.name}`)
  if (found === undefined) return policy
  return `gitops/${name}/network/${found.metadata.namespace}/${found.kind}.${found.metadata.name}.yaml`
}
