import { isUnknown } from '../../../contracts/planned-resource.ts'
import { NAME_LIMITS, UNTAGGED } from '../names.ts'
import { type Demand, demand, isTrue, ofType, originsOf, problem, typeOf, valueAt } from '../read.ts'
import type { Problem, RuleContext, RuledPlan, RuledResource, StackRule } from '../rule.ts'
import { BUDGET, CLUSTER, DATABASE, RULE_ASSOCIATION, STORAGE, VAULT } from '../types.ts'

const STATEFUL = [
  CLUSTER,
  VAULT,
  DATABASE,
  STORAGE,
  'azure-native:dns:Zone',
  'azure-native:operationalinsights:Workspace',
  'azure-native:monitor:AzureMonitorWorkspace',
]

function protectedState(plan: RuledPlan, { environment }: RuleContext): Problem[] {
  if (environment !== 'production') return []
  return ofType(plan, ...STATEFUL)
    .filter((resource) => !resource.protect)
    .map((resource) => problem(resource, '', 'holds state and is not protected: set the option protect'))
}

const isText: Demand = {
  holds: (value) => typeof value === 'string' && value.trim() !== '',
  remedy: 'set it',
}
const isTime: Demand = {
  holds: (value) =>
    typeof value === 'string' &&
    /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+Z)?$/.test(value) &&
    !Number.isNaN(Date.parse(value)),
  remedy: 'set it to the end of the preview, such as 2027-01-31T00:00:00Z',
}

/** A stack that is checked with weaker rules must not tag its resources as production. */
const isNotProduction: Demand = {
  holds: (value) => !/^prod/i.test(String(value)),
  remedy: 'give the stack a production name, so that the rules for production apply',
}

function tags(resource: RuledResource, { environment }: RuleContext): Problem[] {
  if (UNTAGGED.includes(shortType(resource))) return []
  return [
    ...['env', 'owner', 'costCenter', 'managedBy'].flatMap((tag) => demand(resource, `tags.${tag}`, isText)),
    ...(environment === 'production' ? [] : demand(resource, 'tags.env', isNotProduction)),
    ...(environment === 'preview' ? demand(resource, 'tags.expires', isTime) : []),
  ]
}

const shortType = (resource: RuledResource) => typeOf(resource).replace('azure-native:', '')

function region(resource: RuledResource, { settings }: RuleContext): Problem[] {
  if (valueAt(resource.inputs, 'location') === undefined) return []
  const spelled = (value: unknown) => String(value).toLowerCase().replaceAll(' ', '')
  return demand(resource, 'location', {
    holds: (value) => spelled(value) === 'global' || settings.regions.includes(spelled(value)),
    remedy: 'use a region of the list, or add this region to the settings of the rule',
  })
}

function name(resource: RuledResource): Problem[] {
  const limit = NAME_LIMITS[shortType(resource)]
  if (limit === undefined) {
    return [
      problem(
        resource,
        '',
        `is a ${shortType(resource)}, whose name limits are unknown: add them to NAME_LIMITS`,
      ),
    ]
  }
  const { property, min, max, pattern, isMadeByAzure } = limit
  if (isMadeByAzure && isUnknown(valueAt(resource.inputs, property))) return []
  const fits: Demand = {
    holds: (value) =>
      typeof value === 'string' && value.length >= min && value.length <= max && pattern.test(value),
    remedy: `give it a name of ${min} to ${max} characters that matches ${pattern.source}`,
  }
  const also: readonly [string, number][] =
    typeOf(resource) === CLUSTER
      ? [
          ['dnsPrefix', 54],
          ['nodeResourceGroup', 80],
        ]
      : []
  return [
    ...demand(resource, property, fits),
    ...also.flatMap(([path, most]) =>
      demand(resource, path, {
        holds: (value) => typeof value === 'string' && value.length > 0 && value.length <= most,
        remedy: `give it a name of 1 to ${most} characters, because the default name of Azure may be too long`,
      }),
    ),
  ]
}

/**
 * A plan with a cluster needs exactly one budget. A slice has none, because its platform pays for all resources that
 * cost money.
 */
function budget(plan: RuledPlan): Problem[] {
  const [cluster] = ofType(plan, CLUSTER)
  const budgets = ofType(plan, BUDGET)
  if (cluster === undefined || budgets.length === 1) return []
  return [problem(cluster, '', `has ${budgets.length} budgets: create exactly one`)]
}

/**
 * Resource types that create other resources which no rule can see, and types that exist only in a preview API version
 * of Azure.
 */
const OPAQUE = ['resources:Deployment', 'resources:Resource', 'resources:DeploymentStackAtResourceGroup']
const PREVIEW_TYPES = [
  'containerservice:DeploymentSafeguard',
  'containerservice:IdentityBinding',
  'fileshares:FileShare',
]
const PREVIEW_VERSION = /^azure-native_[a-z0-9]+_v[0-9]+(?:preview|beta|alpha)[a-z0-9]*:/

/** Providers whose resources the rules can read, and the program's components. */
const PROVIDERS = /^(?:azure-native(?:_[a-z0-9]+_v[a-z0-9]+)?|kubernetes|pulumi|agentweaver):/

function preview(plan: RuledPlan, { environment }: RuleContext): Problem[] {
  return plan.resources.flatMap((resource) => {
    if (!PROVIDERS.test(resource.type)) {
      return [
        problem(resource, '', `is a ${resource.type}, from a provider that the rules do not know: remove it`),
      ]
    }
    if (OPAQUE.includes(shortType(resource))) {
      return [
        problem(
          resource,
          '',
          `is a ${shortType(resource)}, whose contents no rule can check: use the resource's specific type`,
        ),
      ]
    }
    if (environment !== 'production') return []
    const isPreview = PREVIEW_VERSION.test(resource.type) || PREVIEW_TYPES.includes(shortType(resource))
    return isPreview
      ? [problem(resource, '', 'uses a preview API of Azure: do not use it in production')]
      : []
  })
}

function metrics(plan: RuledPlan): Problem[] {
  return ofType(plan, CLUSTER).flatMap((cluster) => {
    const enabled = valueAt(cluster.inputs, 'azureMonitorProfile.metrics.enabled')
    if (enabled === undefined || enabled === false) return []
    const isWired = ofType(plan, RULE_ASSOCIATION).some(
      (one) => isOf(plan, one, cluster) && one.inputs['dataCollectionRuleId'] !== undefined,
    )
    const unknown = demand(cluster, 'azureMonitorProfile.metrics.enabled', isTrue)
    if (unknown.length > 0 || isWired) return unknown
    return [
      problem(
        cluster,
        'azureMonitorProfile.metrics',
        'collects nothing: associate a data collection rule with the cluster',
      ),
    ]
  })
}

/**
 * Whether an association targets a cluster. The cluster's id is unknown before creation; otherwise the id ends in the
 * cluster's name.
 */
function isOf(plan: RuledPlan, association: RuledResource, cluster: RuledResource): boolean {
  const target = association.inputs['resourceUri']
  if (typeof target !== 'string') return originsOf(plan, association, 'resourceUri').includes(cluster.urn)
  return target
    .toLowerCase()
    .endsWith(`/managedclusters/${String(cluster.inputs['resourceName'])}`.toLowerCase())
}

export const CONVENTION_RULES: readonly StackRule[] = [
  {
    number: 31,
    name: 'protect-stateful',
    level: 'mandatory',
    requires:
      'in production, resources that hold state are protected: vaults, database, storage, cluster, DNS zone, workspaces',
    reason: 'a mistaken edit or destroy fails before it deletes',
    stack: protectedState,
  },
  {
    number: 32,
    name: 'tags',
    level: 'mandatory',
    requires:
      'every resource that can have tags has its environment, owner, cost centre and manager, and in previews its expiry time',
    reason: 'each cost has an owner, and the sweeper finds expired previews',
    resource: { check: tags },
  },
  {
    number: 33,
    name: 'regions',
    level: 'mandatory',
    requires: 'every resource is in a region of the list',
    reason: 'data stays in permitted regions, which have the required zones and sizes',
    resource: { check: region },
  },
  {
    number: 34,
    name: 'names',
    level: 'mandatory',
    requires: "every resource has an explicit name within Azure's limits",
    reason: 'a generated or truncated name can collide, and other stacks cannot find it',
    resource: { check: name },
  },
  {
    number: 35,
    name: 'budget',
    level: 'mandatory',
    requires: 'a stack with a cluster has exactly one budget',
    reason: 'the owner gets a warning about costs before the invoice',
    stack: budget,
  },
  {
    number: 36,
    name: 'no-preview-api',
    level: 'mandatory',
    requires: 'production uses no preview API; no stack uses templates or other providers',
    reason: 'a preview API can change or end, and rules cannot see what a template creates',
    stack: preview,
  },
  {
    number: 39,
    name: 'metrics-wired',
    level: 'mandatory',
    requires: 'a cluster with metrics has an associated data collection rule',
    reason: 'otherwise nothing is collected, without an error, and no alert fires',
    stack: metrics,
  },
]
