import { SandboxKind } from '../../contracts/names.ts'
import { podNeeds } from '../environment/pod-needs.ts'
import type { Environment } from '../environment/schema.ts'
import { type Fit, fitInAll, fitPerNode } from './fit.ts'
import { hitRatio, underWayAtMost, warmSize } from './warm-size.ts'

export interface Demand {
  readonly kind: SandboxKind
  readonly arrivalsPerHour: number
  /** Variance-to-mean ratio of the number of arrivals; 1 is Poisson. */
  readonly dispersion: number
  /** Seconds from a claim until its replacement sandbox is ready. */
  readonly replenishSeconds: number
  /** The share of claims that should get a warm sandbox. */
  readonly targetHitRatio: number
  readonly durationMinutes?: number
}

export interface WarmAdvice {
  /** Mean number of sandboxes that are starting. */
  readonly starting: number
  readonly configured: number
  readonly configuredHitRatio: number
  readonly recommended: number
  readonly recommendedHitRatio: number
  /** Sandboxes that can be bound at once in addition to the recommended pool. */
  readonly sandboxesBeside: number
}

export interface Busy {
  readonly mean: number
  /** The number of bound sandboxes is at most this for `share` of the time. */
  readonly most: number
  readonly share: number
  /** Whether that number fits in addition to the recommended pool. */
  readonly fits: boolean
}

export interface ClassFit {
  readonly kind: SandboxKind
  readonly warm: number
  /** Resource requests of one sandbox, including the overhead of its runtime class. */
  readonly pod: { readonly cpuMillis: number; readonly memoryMib: number; readonly ephemeralMib: number }
  readonly perNode: Fit
  readonly inAll: Fit
}

export interface CapacityReport {
  readonly environment: string
  readonly isolation: Environment['isolation']
  readonly slice: Environment['slice']
  readonly overhead: Environment['sizes']['sandboxes']['overhead']
  readonly maxNodes: number
  readonly classes: readonly ClassFit[]
  readonly demand?: Demand
  readonly warm?: WarmAdvice
  readonly busy?: Busy
}

/** The busy number is exceeded for about 90 seconds of a day. */
const BUSY_SHARE = 0.999

export function capacityReport(environment: Environment, demand?: Demand): CapacityReport {
  const { name, isolation, slice, infra, sizes } = environment
  const report = {
    environment: name,
    isolation,
    slice,
    overhead: sizes.sandboxes.overhead,
    maxNodes: infra.sandboxNodes.max,
    classes: SandboxKind.options.map((kind) => classFit(environment, kind)),
  }
  if (!demand) return report
  const warm = warmAdvice(environment, demand)
  const { durationMinutes } = demand
  return {
    ...report,
    demand,
    warm,
    ...(durationMinutes === undefined ? {} : { busy: busyness({ demand, durationMinutes, warm }) }),
  }
}

function classFit(environment: Environment, kind: SandboxKind): ClassFit {
  const { cpuMillis, memoryMib, ephemeralMib, warm } = podNeeds(environment.sizes.sandboxes)[kind]
  return {
    kind,
    warm,
    pod: { cpuMillis, memoryMib, ephemeralMib },
    perNode: fitPerNode(environment, kind),
    inAll: fitInAll(environment, kind),
  }
}

function warmAdvice(environment: Environment, demand: Demand): WarmAdvice {
  const { kind, arrivalsPerHour, dispersion, replenishSeconds, targetHitRatio } = demand
  const arrivals = { load: (arrivalsPerHour / 3600) * replenishSeconds, dispersion }
  const configured = podNeeds(environment.sizes.sandboxes)[kind].warm
  const recommended = warmSize(arrivals, targetHitRatio)
  return {
    starting: arrivals.load,
    configured,
    configuredHitRatio: hitRatio(configured, arrivals),
    recommended,
    recommendedHitRatio: hitRatio(recommended, arrivals),
    sandboxesBeside: fitInAll(withWarm(environment, kind, recommended), kind).sandboxes,
  }
}

function withWarm(environment: Environment, kind: SandboxKind, replicas: number): Environment {
  const { sandboxes } = environment.sizes
  const pool = { ...sandboxes[kind], warm: { owner: 'tree' as const, replicas } }
  return {
    ...environment,
    sizes: { ...environment.sizes, sandboxes: { ...sandboxes, [kind]: pool } },
  }
}

interface Busyness {
  readonly demand: Demand
  readonly durationMinutes: number
  readonly warm: WarmAdvice
}

/**
 * Runs never queue, so the number of bound sandboxes has the same distribution as the number of starting
 * ones, for any distribution of run times.
 */
function busyness({ demand, durationMinutes, warm }: Busyness): Busy {
  const { arrivalsPerHour, dispersion } = demand
  const mean = (arrivalsPerHour / 60) * durationMinutes
  const most = underWayAtMost({ load: mean, dispersion }, BUSY_SHARE)
  return { mean, most, share: BUSY_SHARE, fits: most <= warm.sandboxesBeside }
}
