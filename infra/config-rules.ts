import type { ConfigProblem, PlatformConfig, SliceConfig } from './config-sections.ts'
import { fitSandboxes, nodeCapacity, vcpusByFamily } from './model/capacity.ts'
import { contains, isPrivate, overlaps, parseCidr, type Range } from './model/cidr.ts'
import { parseVmSize } from './model/vm-sizes.ts'

type Sections = Partial<PlatformConfig>
type Rule = (config: Sections) => readonly ConfigProblem[]

/** A rule over the named sections. It is skipped while one of them is missing or invalid. */
function rule<K extends keyof PlatformConfig>(
  keys: readonly K[],
  check: (config: Pick<PlatformConfig, K>) => readonly (ConfigProblem | false | undefined)[],
): Rule {
  return (config) =>
    keys.every((key) => Object.hasOwn(config, key))
      ? check(config as Pick<PlatformConfig, K>).filter((problem) => typeof problem === 'object')
      : []
}

const problem = (path: string, message: string): ConfigProblem => ({ path, message })

const SUBNETS = ['nodeCidr', 'apiServerCidr', 'databaseCidr', 'endpointCidr', 'runners.cidr'] as const
/** Longest prefix that each subnet may have: the requirements of AKS and PostgreSQL, plus room for surge nodes. */
const SUBNET_BITS = {
  nodeCidr: 24,
  apiServerCidr: 28,
  databaseCidr: 28,
  endpointCidr: 28,
  'runners.cidr': 29,
} as const

const ranges = rule(['network'], ({ network }) => {
  const named = (['vnetCidr', ...SUBNETS, 'podCidr', 'serviceCidr'] as const).flatMap((key) => {
    const range = parseCidr(key === 'runners.cidr' ? (network.runners?.cidr ?? '') : network[key])
    return range ? [{ key, range }] : []
  })
  const rangeOf = (key: string) => named.find((one) => one.key === key)?.range
  const vnet = rangeOf('vnetCidr')
  return [
    ...named.map(
      ({ key, range }) =>
        !isPrivate(range) && problem(`network.${key}`, `${range.cidr} is not private: use one of 10.0.0.0/8`),
    ),
    ...SUBNETS.map((key) => outsideOf(key, vnet, rangeOf(key))),
    ...SUBNETS.map((key) => tooSmall(key, rangeOf(key))),
    ...named.flatMap(({ key, range }, index) =>
      named.slice(index + 1).map((other) => {
        const isNested = key === 'vnetCidr' && SUBNETS.some((subnet) => subnet === other.key)
        if (isNested || !overlaps(range, other.range)) return false
        return problem(
          `network.${other.key}`,
          `${other.range.cidr} overlaps ${key} ${range.cidr}: give it another range`,
        )
      }),
    ),
  ]
})

function outsideOf(key: string, vnet: Range | undefined, range: Range | undefined) {
  if (!vnet || !range || contains(vnet, range)) return false
  return problem(`network.${key}`, `${range.cidr} is not in vnetCidr ${vnet.cidr}: subnets are parts of it`)
}

function tooSmall(key: (typeof SUBNETS)[number], range: Range | undefined) {
  if (!range || range.bits <= SUBNET_BITS[key]) return false
  return problem(`network.${key}`, `${range.cidr} is too small: at least a /${SUBNET_BITS[key]}`)
}

/** The owner of the network decides which settings are allowed. */
const ownership = rule(['network'], ({ network }) => {
  const { existing, runners, peerings } = network
  return [
    existing !== undefined &&
      runners !== undefined &&
      problem(
        'network.runners',
        'must be left out with existing: the owner of that network makes the subnet',
      ),
    existing !== undefined &&
      peerings.length > 0 &&
      problem('network.peerings', 'must be left out with existing: the owner of that network connects it'),
    ...peerings.flatMap((peering, at) =>
      peering.ranges.map((cidr, index) => {
        const own = (['vnetCidr', 'podCidr', 'serviceCidr'] as const).find((key) =>
          overlap(cidr, network[key]),
        )
        return (
          own !== undefined &&
          problem(
            `network.peerings.${at}.ranges.${index}`,
            `${cidr} overlaps ${own} ${network[own]}: such networks cannot be connected`,
          )
        )
      }),
    ),
    new Set(peerings.map(({ name }) => name)).size < peerings.length &&
      problem('network.peerings', 'must have a different name for each'),
  ]
})

function overlap(one: string, other: string): boolean {
  const [a, b] = [parseCidr(one), parseCidr(other)]
  return a !== undefined && b !== undefined && overlaps(a, b)
}

const addresses = rule(['network', 'pools'], ({ network, pools }) => {
  const nodes = [pools.system, pools.app, pools.kata].reduce((sum, pool) => sum + pool.max + 1, 0)
  const pods = parseCidr(network.podCidr)
  const subnet = parseCidr(network.nodeCidr)
  // Azure reserves five addresses of each subnet; the overlay gives each node a /24 of the pods' range.
  const nodesThatFit = subnet ? subnet.to - subnet.from + 1 - 5 : nodes
  const podRanges = pods && pods.bits <= 24 ? 2 ** (24 - pods.bits) : 0
  return [
    nodes > nodesThatFit &&
      problem('network.nodeCidr', `has room for ${nodesThatFit} nodes, the pools grow to ${nodes}: widen it`),
    nodes > podRanges &&
      problem('network.podCidr', `has a /24 for ${podRanges} nodes, the pools grow to ${nodes}: widen it`),
  ]
})

const POOLS = ['system', 'app', 'kata'] as const

const pools = rule(['pools'], ({ pools: all }) =>
  POOLS.flatMap((name) => {
    const pool = all[name]
    const size = parseVmSize(pool.size)
    return [
      pool.min > pool.max &&
        problem(`pools.${name}.min`, `${pool.min} is above max ${pool.max}: lower min or raise max`),
      size && size.tempDiskGib > 0 && pool.osDiskGib > size.tempDiskGib
        ? problem(
            `pools.${name}.osDiskGib`,
            `${pool.osDiskGib} GiB does not fit on the local disk of ${pool.size}, ${size.tempDiskGib} GiB: lower it or use a larger size`,
          )
        : undefined,
    ]
  }),
)

const systemPool = rule(['pools'], ({ pools: { system } }) => {
  const size = parseVmSize(system.size)
  return [
    system.min < 2 &&
      problem('pools.system.min', 'must be at least 2: if the only node fails, DNS fails too'),
    size?.isBurstable &&
      problem('pools.system.size', 'must not be burstable: AKS refuses B sizes for system pools'),
    size && size.vcpus < 4
      ? problem('pools.system.size', 'must have at least 4 vCPUs, such as Standard_D4ds_v5')
      : undefined,
  ]
})

const kataPool = rule(['pools'], ({ pools: { kata } }) => {
  const size = parseVmSize(kata.size)
  return [
    size?.isArm && problem('pools.kata.size', `${kata.size} is Arm64, which Kata pods cannot run on`),
    size &&
      !size.isArm &&
      !size.isKataCapable &&
      problem(
        'pools.kata.size',
        `${kata.size} does not support nested virtualisation: use an Intel D or E size of v3 to v5, such as Standard_D8ds_v5`,
      ),
    kata.min < 1 &&
      problem(
        'pools.kata.min',
        'must be at least 1: with no node, the first sandbox waits minutes for a machine',
      ),
  ]
})

const archOfOthers = rule(['pools'], ({ pools: all }) =>
  (['system', 'app'] as const).map(
    (name) =>
      parseVmSize(all[name].size)?.isArm === true &&
      problem(`pools.${name}.size`, `${all[name].size} is Arm64: our images are built for amd64`),
  ),
)

const sandboxes = rule(['pools', 'sandbox'], ({ pools: { kata }, sandbox }) => {
  const size = parseVmSize(kata.size)
  if (!size) return []
  const node = { ...nodeCapacity(size, kata), ...kata.measured }
  const { perNode, limit } = fitSandboxes(node, kata.daemons, sandbox)
  const most = perNode * kata.max
  return [
    most < sandbox.max &&
      problem(
        'sandbox.max',
        `${sandbox.max} sandboxes do not fit: ${kata.max} nodes hold ${perNode} each (${limit} runs out): raise pools.kata.max or lower it`,
      ),
    sandbox.warm > sandbox.max && problem('sandbox.warm', `${sandbox.warm} is above max ${sandbox.max}`),
    sandbox.warm > perNode * kata.max &&
      problem('sandbox.warm', `${sandbox.warm} warm sandboxes do not fit into the pool`),
  ]
})

const quota = rule(['pools', 'quota'], ({ pools: all, quota: allowed }) => {
  const wanted = vcpusByFamily(POOLS.map((name) => ({ ...all[name], surge: 1 })))
  return Object.entries(allowed).map(([family, vcpus]) => {
    const need = wanted[family] ?? 0
    return (
      need > vcpus &&
      problem(
        `quota.${family}`,
        `${vcpus} vCPUs are fewer than the ${need} that the pools may use: ask Azure for more or lower a max`,
      )
    )
  })
})

const apiServer = rule(['apiServer'], ({ apiServer: api }) =>
  api.access === 'private'
    ? []
    : api.ranges.map((cidr, index) => {
        const range = parseCidr(cidr)
        const isWide = range !== undefined && range.bits < 8
        return (
          isWide &&
          problem(
            `apiServer.ranges.${index}`,
            `${cidr} covers nearly the whole Internet: list your own networks`,
          )
        )
      }),
)

const egress = rule(['egress'], ({ egress: { mode, advancedPolicies } }) => [
  mode === 'fqdn' &&
    advancedPolicies === 'None' &&
    problem(
      'egress.advancedPolicies',
      'must be FQDN or L7 with egress.mode fqdn, otherwise nothing enforces the names',
    ),
])

const registry = rule(['registry'], ({ registry: { sku, allowedRanges } }) => [
  allowedRanges !== undefined &&
    sku !== 'Premium' &&
    problem(
      'registry.sku',
      'must be Premium with allowedRanges: only it has network rules and private endpoints',
    ),
])

const previews = rule(
  ['environment', 'controller', 'previewFeatures', 'allowPreviewInProd'],
  ({ environment, controller, previewFeatures, allowPreviewInProd }) => [
    controller.install === 'aksExtension' &&
      !previewFeatures &&
      problem(
        'previewFeatures',
        'must be true for controller.install aksExtension, which Azure calls a preview',
      ),
    environment === 'prod' &&
      previewFeatures &&
      !allowPreviewInProd &&
      problem('previewFeatures', 'must be false in prod, unless allowPreviewInProd is true'),
  ],
)

const production = rule(
  ['environment', 'protect', 'pools', 'database', 'registry'],
  ({ environment, protect, pools: all, database, registry: images }) =>
    environment !== 'prod'
      ? []
      : [
          !protect && problem('protect', 'must be true in prod'),
          all.system.min < 3 && problem('pools.system.min', 'must be at least 3 in prod: one for each zone'),
          all.system.zones.length < 3 && problem('pools.system.zones', 'must be all three in prod'),
          !database.highAvailability && problem('database.highAvailability', 'must be true in prod'),
          database.backupDays < 14 && problem('database.backupDays', 'must be at least 14 in prod'),
          images.sku !== 'Premium' &&
            problem('registry.sku', 'must be Premium in prod: it keeps images in every zone'),
        ],
)

const databaseSize = rule(['database'], ({ database: { size, highAvailability } }) => [
  highAvailability &&
    parseVmSize(size)?.isBurstable === true &&
    problem('database.size', 'must not be burstable with highAvailability: use a D size'),
])

const modelHost = rule(['model', 'subscriptionId'], ({ model, subscriptionId }) => [
  model !== undefined &&
    !model.resourceId.startsWith(`/subscriptions/${subscriptionId}/`) &&
    problem(
      'model.resourceId',
      `must be in subscription ${subscriptionId}: the program cannot assign roles in another subscription`,
    ),
])

const modelProxy = rule(['model', 'egress'], ({ model, egress: { mode } }) => [
  model !== undefined &&
    mode !== 'proxy' &&
    problem(
      'model',
      `needs egress.mode proxy, because the egress proxy alone calls it: change the mode from ${mode}, or remove model`,
    ),
])

const RULES = [
  ranges,
  ownership,
  addresses,
  pools,
  systemPool,
  kataPool,
  archOfOthers,
  sandboxes,
  quota,
  apiServer,
  egress,
  registry,
  previews,
  production,
  databaseSize,
  modelHost,
  modelProxy,
]

/** Problems between the sections of a platform. */
export function platformProblems(sections: Sections): readonly ConfigProblem[] {
  return RULES.flatMap((check) => check(sections))
}

/**
 * Problems between the sections of a slice. The expiry date is not checked here, because the result must not depend
 * on the clock.
 */
export function sliceProblems(sections: Partial<SliceConfig>): readonly ConfigProblem[] {
  const { ceiling } = sections
  return ceiling !== undefined && ceiling.memoryMib < 1024
    ? [problem('ceiling.memoryMib', 'must be at least 1024: the API alone needs that')]
    : []
}
