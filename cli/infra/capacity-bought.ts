import { capacityReport } from '../../charts-src/capacity/capacity-report.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import type { PlatformConfig } from '../../infra/config-sections.ts'
import { type Fit, fitSandboxes, nodeCapacity, nodeHours, vcpusByFamily } from '../../infra/model/capacity.ts'
import { parseVmSize } from '../../infra/model/vm-sizes.ts'

/**
 * The capacity that a stack file buys: sandboxes, node-hours and vCPUs. It has no prices, because they differ by
 * contract and region.
 */
export interface CapacityBought {
  readonly perNode: number
  /** The resource that limits the number of sandboxes on a node. */
  readonly limit: Fit['limit']
  /** The total with all nodes of the pool's maximum, including the warm sandboxes. */
  readonly inAll: number
  readonly warm: {
    readonly sandboxes: number
    /** Nodes that the warm sandboxes occupy while no run is active: at least the pool's minimum. */
    readonly nodes: number
    readonly nodeHoursPerMonth: number
  }
  readonly pools: readonly {
    readonly pool: string
    readonly size: string
    readonly leastNodeHours: number
    readonly mostNodeHours: number
  }[]
  readonly vcpus: readonly {
    readonly family: string
    readonly most: number
    readonly quota: number | undefined
  }[]
  /** The charts' result per class with these nodes, if their environment file exists. */
  readonly classes?: readonly { readonly kind: string; readonly perNode: number; readonly inAll: number }[]
}

const POOLS = ['system', 'app', 'kata'] as const

export function capacityBought(config: PlatformConfig, environment?: Environment): CapacityBought {
  const { pools, sandbox, quota } = config
  const { perNode, limit } = fitSandboxes(kataNode(config), pools.kata.daemons, sandbox)
  const nodes = Math.max(pools.kata.min, perNode === 0 ? 0 : Math.ceil(sandbox.warm / perNode))
  const families = vcpusByFamily(POOLS.map((name) => ({ ...pools[name], surge: 1 })))
  return {
    perNode,
    limit,
    inAll: perNode * pools.kata.max,
    warm: { sandboxes: sandbox.warm, nodes, nodeHoursPerMonth: nodeHours({ min: nodes, max: nodes }).least },
    pools: POOLS.map((pool) => {
      const { least, most } = nodeHours(pools[pool])
      return { pool, size: pools[pool].size, leastNodeHours: least, mostNodeHours: most }
    }),
    vcpus: Object.entries(families).map(([family, most]) => ({ family, most, quota: quota[family] })),
    ...(environment ? { classes: classesOn(config, environment) } : {}),
  }
}

function kataNode({ pools: { kata } }: PlatformConfig) {
  const size = parseVmSize(kata.size)
  if (!size) throw new RangeError(`${kata.size} has passed the schema but is no size`)
  return { ...nodeCapacity(size, kata), ...kata.measured }
}

function classesOn(config: PlatformConfig, environment: Environment) {
  const { kata } = config.pools
  const sandboxNodes = { ...kataNode(config), min: kata.min, max: kata.max, daemons: kata.daemons }
  const { classes } = capacityReport({ ...environment, infra: { ...environment.infra, sandboxNodes } })
  return classes.map(({ kind, perNode, inAll }) => ({
    kind,
    perNode: perNode.sandboxes,
    inAll: inAll.sandboxes,
  }))
}
