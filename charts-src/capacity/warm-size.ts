/**
 * A warm pool of n in which each claim takes one sandbox and starts one is a base-stock inventory, (S-1, S) with S = n
 * and the start of a sandbox as its lead time. With Poisson arrivals the number that is starting is Poisson with mean
 * arrivals × start time, however start times are distributed (Palm's theorem, 1938, as Feeney and Sherbrooke use it in
 * "The (s-1, s) inventory policy under compound Poisson demand", 1966), and a claim finds a warm sandbox if fewer than n
 * are starting.
 *
 * Arrivals in bursts are Poisson bursts of geometric size: the number that is starting is then compound Poisson, and a
 * claim also waits behind those before it in its own burst.
 */
export interface Arrivals {
  /** Mean number in progress: arrival rate × time (Little's law). */
  readonly load: number
  /** Variance-to-mean ratio of the number of arrivals; 1 is Poisson. */
  readonly dispersion: number
}

/** The largest load that is computed, far above the number of sandboxes that a cluster starts at once. */
export const MAX_LOAD = 100_000

/** The share of claims that find a warm sandbox in a pool of this size. */
export function hitRatio(warm: number, arrivals: Arrivals): number {
  return warm === 0 ? 0 : sumTo(aheadOfClaim(arrivals), warm)
}

/** The smallest pool in which at least this share of the claims finds a warm sandbox. */
export function warmSize(arrivals: Arrivals, target: number): number {
  return firstReaching(aheadOfClaim(arrivals), target)
}

/** The smallest n for which at most n are in progress for at least this share of the time. */
export function underWayAtMost(arrivals: Arrivals, share: number): number {
  return firstReaching(underWay(arrivals), share) - 1
}

/**
 * Probabilities of 0, 1, 2, … in progress: Panjer's recursion (1981) for a Poisson number of geometric
 * bursts.
 */
export function underWay({ load, dispersion }: Arrivals): number[] {
  const again = moreInBurst(dispersion)
  const bursts = load * (1 - again)
  const weights = [1]
  let [sum, decayed, weighted] = [1, 0, 0]
  // Starts at 1 and normalizes at the end, because the true first value exp(-load) underflows to 0 for a
  // large load.
  for (let count = 1; ; count++) {
    decayed = (weights[count - 1] ?? 0) + again * decayed
    weighted = decayed + again * weighted
    const weight = (bursts / count) * (1 - again) * weighted
    weights.push(weight)
    sum += weight
    if (count > load && weight < sum * NEGLIGIBLE) return weights.map((one) => one / sum)
    if (sum < HUGE) continue
    for (const index of weights.keys()) weights[index] = (weights[index] ?? 0) / HUGE
    sum /= HUGE
    decayed /= HUGE
    weighted /= HUGE
  }
}
const NEGLIGIBLE = 1e-18
const HUGE = 1e200

/**
 * Probability that a burst continues after a claim, chosen so that the variance-to-mean ratio equals the
 * dispersion.
 */
const moreInBurst = (dispersion: number) => (dispersion - 1) / (dispersion + 1)

/**
 * Probabilities of 0, 1, 2, … sandboxes starting when a claim is served, including earlier claims of its
 * burst.
 */
function aheadOfClaim(arrivals: Arrivals): number[] {
  const again = moreInBurst(arrivals.dispersion)
  let ahead = 0
  return underWay(arrivals).map((probability) => {
    ahead = (1 - again) * probability + again * ahead
    return ahead
  })
}

const sumTo = (probabilities: readonly number[], count: number) =>
  Math.min(
    1,
    probabilities.slice(0, count).reduce((sum, one) => sum + one, 0),
  )

/** How many leading probabilities add up to a share. */
function firstReaching(probabilities: readonly number[], share: number): number {
  let sum = 0
  const index = probabilities.findIndex((probability) => {
    sum += probability
    return sum >= share
  })
  return index < 0 ? probabilities.length : index + 1
}
