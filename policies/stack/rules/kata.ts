import { KATA_NODE_LABEL, KATA_TAINT } from '../../../contracts/labels.ts'
import { isKata, type PoolPlace, poolsOf, readSize } from '../pools.ts'
import { asList, type Demand, demand, isNotTrue, isOneOf, isWithin, problem, valueAt } from '../read.ts'
import type { Problem, RuleContext, RuledResource, StackRule } from '../rule.ts'
import { CLUSTER, POOL } from '../types.ts'

const TAINT = `${KATA_TAINT.key}=${KATA_TAINT.value}:${KATA_TAINT.effect}`

/**
 * Sizes with nested virtualisation: the Intel D and E series of versions 3 to 5, and Dads_v7 since AKS's change log of
 * 2026-06-19.
 */
const NESTING = /^Standard_(?:[DE]\d+d?s_v[345]|D\d+ads_v7)$/

type PoolCheck = (resource: RuledResource, pool: PoolPlace, context: RuleContext) => readonly Problem[]

const everyPool = (check: PoolCheck) => ({
  types: [CLUSTER, POOL],
  check: (resource: RuledResource, context: RuleContext) =>
    poolsOf(resource).flatMap((pool) => check(resource, pool, context)),
})

const everyKataPool = (check: PoolCheck) =>
  everyPool((resource, pool, context) => (isKata(pool) ? check(resource, pool, context) : []))

const isNesting: Demand = {
  holds: (value) => typeof value === 'string' && NESTING.test(value),
  remedy: 'use an Intel D or E size of version 3 to 5, such as Standard_D8ds_v5',
}
const isNotArm: Demand = {
  holds: (value) => !readSize(value).features.includes('p'),
  remedy: 'use a size that is not Arm (no "p" among its features)',
}
const holdsTaint: Demand = {
  holds: (value) => asList(value).includes(TAINT),
  remedy: `add "${TAINT}", or pods without isolation run next to sandboxes`,
}
/** The label's key contains dots, so `valueAt` cannot read it. */
function labelOf({ inputs }: PoolPlace) {
  const labels = valueAt(inputs, 'nodeLabels')
  if (typeof labels !== 'object' || labels === null) return undefined
  return (labels as { readonly [key: string]: unknown })[KATA_NODE_LABEL.key]
}

function labelProblem(resource: RuledResource, pool: PoolPlace): Problem[] {
  if (labelOf(pool) === KATA_NODE_LABEL.value) return []
  const wanted = `"${KATA_NODE_LABEL.key}": "${KATA_NODE_LABEL.value}"`
  return [problem(resource, `${pool.at}nodeLabels`, `lacks ${wanted}, known while planning: use a constant`)]
}

/** A pool that has the taint or label of sandbox pools but does not isolate sandboxes. */
function falseMarks(resource: RuledResource, pool: PoolPlace): Problem[] {
  const isMarkedKata =
    asList(valueAt(pool.inputs, 'nodeTaints')).includes(TAINT) || labelOf(pool) !== undefined
  if (!isMarkedKata) return []
  return demand(resource, `${pool.at}workloadRuntime`, {
    holds: () => false,
    remedy: 'set it to "KataVmIsolation", because the pool has the taint or label for sandboxes',
  })
}

const kataTaint: PoolCheck = (resource, pool, { settings }) => {
  if (!isKata(pool)) return falseMarks(resource, pool)
  return [
    ...demand(resource, `${pool.at}nodeTaints`, holdsTaint),
    ...labelProblem(resource, pool),
    ...demand(resource, `${pool.at}mode`, isOneOf('User')),
    ...demand(resource, `${pool.at}minCount`, isWithin(0, settings.kataMaxNodes)),
    ...demand(resource, `${pool.at}maxCount`, isWithin(1, settings.kataMaxNodes)),
  ]
}

export const KATA_RULES: readonly StackRule[] = [
  {
    number: 1,
    name: 'kata-os',
    level: 'mandatory',
    requires: 'a pool with Kata uses Azure Linux',
    reason: 'Azure offers Kata only there and rejects other pools',
    resource: everyKataPool((resource, { at }) =>
      demand(resource, `${at}osSKU`, isOneOf('AzureLinux', 'AzureLinux3')),
    ),
  },
  {
    number: 2,
    name: 'kata-sku',
    level: 'mandatory',
    requires: 'a pool with Kata has a machine size with nested virtualisation',
    reason: 'sandboxes do not start on other sizes',
    resource: everyKataPool((resource, { at }) => demand(resource, `${at}vmSize`, isNesting)),
  },
  {
    number: 3,
    name: 'kata-incompat',
    level: 'mandatory',
    requires: 'a pool with Kata has no FIPS image, secure boot, vTPM, Arm size or artifact streaming',
    reason: 'Azure rejects the pool, or sandboxes do not start',
    resource: everyKataPool((resource, { at }) => [
      ...demand(resource, `${at}enableFIPS`, isNotTrue),
      ...demand(resource, `${at}securityProfile.enableSecureBoot`, isNotTrue),
      ...demand(resource, `${at}securityProfile.enableVTPM`, isNotTrue),
      ...demand(resource, `${at}artifactStreamingProfile.enabled`, isNotTrue),
      ...demand(resource, `${at}vmSize`, isNotArm),
    ]),
  },
  {
    number: 4,
    name: 'kata-taint',
    level: 'mandatory',
    requires:
      'a pool with Kata has the taint and label for sandboxes, is a user pool and has a maximum size; no other pool has that taint or label',
    reason: 'only sandboxes run on these nodes, and they run nowhere else',
    resource: everyPool(kataTaint),
  },
  {
    number: 5,
    name: 'no-legacy-runtime',
    level: 'mandatory',
    requires: 'the runtime of a pool is OCIContainer or KataVmIsolation',
    reason:
      'the SDK accepts any string, so a misspelt runtime fails only in Azure, or runs without isolation',
    resource: everyPool((resource, { at }) =>
      demand(resource, `${at}workloadRuntime`, isOneOf('KataVmIsolation', 'OCIContainer', undefined)),
    ),
  },
]
