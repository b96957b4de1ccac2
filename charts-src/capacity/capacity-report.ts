import { SandboxKind } from '../../contracts/names.ts'
import { podNeeds } from '../environment/pod-needs.ts'
import type { Environment } from '../environment/schema.ts'
import { type Fit, fitOf } from './fit.ts'
import { simulatePool } from './simulate-pool.ts'
import { hitRatio, hitRatioWithLoss, warmSize } from './warm-size.ts'

export interface Demand {
  readonly arrivalsPerMinute: number
  /** From the start of a sandbox until it is ready. */
  readonly startSeconds: number
  /** The share of claims that should find a warm sandbox. */
  readonly target: number
}

export interface WarmAdvice {
  readonly kind: SandboxKind
  readonly configured: number
  readonly recommended: number
  /** Share of claims that find a warm sandbox: by the model, and if those that find none start their own. */
  readonly configuredHitRatio: number
  readonly recommendedHitRatio: number
  readonly recommendedHitRatioWithLoss: number
  /** The same pool played claim by claim, with fixed and with widely varying start times. */
  readonly simulated: { readonly fixed: number; readonly exponential: number }
}

export interface CapacityReport {
  readonly environment: string
  readonly fits: readonly Fit[]
  readonly demand?: Demand
  readonly advice?: readonly WarmAdvice[]
}

const SIMULATED_CLAIMS = 50_000
const SEED = 20_260_101

export function capacityReport(environment: Environment, demand?: Demand): CapacityReport {
  const fits = SandboxKind.options.map((kind) => fitOf(environment, kind))
  const report = { environment: environment.name, fits }
  if (!demand) return report
  const needs = podNeeds(environment.sizes.sandboxes)
  return {
    ...report,
    demand,
    advice: SandboxKind.options.map((kind) => adviceFor(kind, needs[kind].warm, demand)),
  }
}

function adviceFor(kind: SandboxKind, configured: number, demand: Demand): WarmAdvice {
  const arrivalsPerSecond = demand.arrivalsPerMinute / 60
  const load = arrivalsPerSecond * demand.startSeconds
  const recommended = warmSize(load, demand.target)
  const simulate = (starts: 'fixed' | 'exponential') =>
    simulatePool({
      warm: recommended,
      arrivalsPerSecond,
      startSeconds: demand.startSeconds,
      starts,
      whenEmpty: 'takes the next',
      claims: SIMULATED_CLAIMS,
      seed: SEED,
    })
  return {
    kind,
    configured,
    recommended,
    configuredHitRatio: hitRatio(configured, load),
    recommendedHitRatio: hitRatio(recommended, load),
    recommendedHitRatioWithLoss: hitRatioWithLoss(recommended, load),
    simulated: { fixed: simulate('fixed'), exponential: simulate('exponential') },
  }
}
