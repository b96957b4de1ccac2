import { poolsOf } from '../pools.ts'
import { demand, isAzure, isNotTrue, isTrue, isWithin, ofType, problem, valueAt } from '../read.ts'
import type { Problem, RuledPlan, RuledResource, StackRule } from '../rule.ts'
import { CLUSTER, POOL } from '../types.ts'

const types = [CLUSTER, POOL]

function bounds(resource: RuledResource): Problem[] {
  return poolsOf(resource).flatMap(({ at, inputs }) => {
    const least = valueAt(inputs, 'minCount')
    const from = typeof least === 'number' ? least : 0
    return [
      ...demand(resource, `${at}enableAutoScaling`, isTrue),
      ...demand(resource, `${at}minCount`, isWithin(0, 1000)),
      ...demand(resource, `${at}maxCount`, isWithin(Math.max(from, 1), 1000)),
    ]
  })
}

/**
 * A program that does not ignore `count` resets the autoscaler's node count on each run. User pools inside a cluster
 * are skipped: Azure lists separate pool resources there too, and only system pools are created with the cluster.
 */
function ignoredCounts(plan: RuledPlan): Problem[] {
  return ofType(plan, ...types).flatMap((resource) =>
    poolsOf(resource).flatMap(({ at, inputs }) => {
      const path = `${at}count`
      const names = [path, path.replace(/\[\d+\]/, '[*]')]
      const isOther = at !== '' && valueAt(inputs, 'mode') === 'User'
      if (isOther || resource.ignoreChanges.some((ignored) => names.includes(ignored))) return []
      return [problem(resource, '', `does not ignore changes of ${path}: add it to the option ignoreChanges`)]
    }),
  )
}

/**
 * Properties that Azure changes by itself. If a program ignored other properties, Pulumi would not notice that they
 * were weakened in Azure.
 */
const OWNED_BY_AZURE = [
  'count',
  'orchestratorVersion',
  'kubernetesVersion',
  'storageSizeGB',
  'availabilityZone',
  'standbyAvailabilityZone',
  'subnets',
]

function ignored(plan: RuledPlan): Problem[] {
  return plan.resources
    .filter(isAzure)
    .flatMap((resource) =>
      resource.ignoreChanges
        .filter((path) => !OWNED_BY_AZURE.includes(path.split('.').at(-1) ?? ''))
        .map((path) =>
          problem(resource, '', `ignores changes of ${path}: remove it from the option ignoreChanges`),
        ),
    )
}

/** Applies to cluster and pool resources at the default API version. */
function sshAccess(resource: RuledResource): Problem[] {
  if (resource.type !== CLUSTER && resource.type !== POOL) return []
  return poolsOf(resource)
    .map(({ at }) => `${at}securityProfile`)
    .filter((path) => valueAt(resource.inputs, `${path}.sshAccess`) !== undefined)
    .map((path) =>
      problem(
        resource,
        `${path}.sshAccess`,
        'is rejected by Azure at this API version: leave out the property and its object',
      ),
    )
}

export const POOL_RULES: readonly StackRule[] = [
  {
    number: 12,
    name: 'node-public-ip',
    level: 'mandatory',
    requires: 'no node has a public address',
    reason: 'nodes cannot be reached from outside, and all egress uses one address',
    resource: {
      types,
      check: (resource) =>
        poolsOf(resource).flatMap(({ at }) => demand(resource, `${at}enableNodePublicIP`, isNotTrue)),
    },
  },
  {
    number: 15,
    name: 'gc-sshaccess',
    level: 'mandatory',
    requires: '`sshAccess` is not set on any pool at the default API version',
    reason:
      'Azure then rejects the whole cluster with 400 (azure-rest-api-specs 40740), although types and mocks accept it',
    resource: { types, check: sshAccess },
  },
  {
    number: 16,
    name: 'autoscale',
    level: 'mandatory',
    requires:
      'every pool scales between bounds and the program ignores its node count; programs ignore no property except those that Azure changes itself',
    reason:
      'a run of the program keeps the choice of the autoscaler, and reverts changes that weaken a resource',
    resource: { types, check: bounds },
    stack: (plan) => [...ignoredCounts(plan), ...ignored(plan)],
  },
]
