import { isSecret, type PlannedValue } from '../../../contracts/planned-resource.ts'
import { poolsOf, readSize } from '../pools.ts'
import { type Demand, demand, ofType, problem } from '../read.ts'
import type { Problem, RuleContext, RuledPlan, RuledResource, StackRule } from '../rule.ts'
import { CLUSTER, GRAFANA, NAT_GATEWAY, POOL } from '../types.ts'

/** Names of inputs and outputs that hold secrets in every provider that the program uses. */
const SECRET_NAME =
  /(?:password|passphrase|connectionString|accountKey|accessKey|sharedKey|privateKey|clientSecret|kubeconfig|bearerToken|sasToken)$/i

/** Secret inputs whose names do not match `SECRET_NAME`. */
const SECRET_INPUTS: Readonly<Record<string, readonly string[]>> = {
  'azure-native:keyvault:Secret': ['properties.value'],
  'kubernetes:core/v1:Secret': ['data', 'stringData'],
}

/**
 * Returns the paths of values that have the name of a secret but are not marked secret. Unknown values are included.
 */
function bare(value: PlannedValue | undefined, path: string): readonly string[] {
  if (typeof value !== 'object' || value === null || isSecret(value)) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    const at = path === '' ? key : `${path}.${key}`
    const isBare = SECRET_NAME.test(key) && inner !== null && !isSecret(inner) && typeof inner !== 'boolean'
    return isBare ? [at] : bare(inner, at)
  })
}

function unmarked(resource: RuledResource): Problem[] {
  const named = (SECRET_INPUTS[resource.type] ?? []).filter((path) => {
    const [first = '', second = ''] = path.split('.')
    const outer = resource.inputs[first]
    if (outer === undefined || isSecret(outer)) return false
    return second === '' || !isSecret((outer as { readonly [key: string]: PlannedValue })[second])
  })
  return [...new Set([...named, ...bare(resource.inputs, '')])].map((path) =>
    problem(
      resource,
      path,
      'is not marked secret and would be plain text in the state: wrap it in pulumi.secret',
    ),
  )
}

function secrets(plan: RuledPlan): Problem[] {
  const root = `urn:pulumi:${plan.stack}::${plan.project}::pulumi:pulumi:Stack::${plan.project}-${plan.stack}`
  return [
    ...plan.resources.flatMap(unmarked),
    ...bare(plan.outputs, '').map((path) => ({
      urn: root,
      path,
      message: `${path} is an output that is not marked secret: wrap it in pulumi.secret, or do not export it`,
    })),
  ]
}

/** Maximum vCPUs of one machine outside production. */
const DEV_VCPUS = 16
const isModest: Demand = {
  holds: (value) => readSize(value).vcpus > 0 && readSize(value).vcpus <= DEV_VCPUS,
  remedy: `use at most ${DEV_VCPUS} vCPUs outside production`,
}

function cost(plan: RuledPlan, { environment }: RuleContext): Problem[] {
  if (environment === 'production') return []
  const gateways = ofType(plan, NAT_GATEWAY).slice(1)
  const boards = environment === 'preview' ? ofType(plan, GRAFANA) : []
  return [
    ...ofType(plan, CLUSTER, POOL).flatMap((resource) =>
      poolsOf(resource).flatMap(({ at }) => demand(resource, `${at}vmSize`, isModest)),
    ),
    ...gateways.map((one) =>
      problem(one, '', 'is a second NAT gateway outside production: use the first one'),
    ),
    ...boards.map((one) => problem(one, '', 'is a Grafana of a preview: use the Grafana of the platform')),
  ]
}

export const OTHER_RULES: readonly StackRule[] = [
  {
    number: 37,
    name: 'secrets',
    level: 'mandatory',
    requires: 'passwords, keys and credentials are marked secret, in inputs and outputs',
    reason: 'state and plans contain no plain-text secrets; the SDK marks none of them itself',
    stack: secrets,
    planOnly: true,
  },
  {
    number: 38,
    name: 'cost',
    level: 'advisory',
    requires: 'outside production, machines are small and there is one NAT gateway; a preview has no Grafana',
    reason: 'development and previews stay cheap',
    stack: cost,
  },
]
