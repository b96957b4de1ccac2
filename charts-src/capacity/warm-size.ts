/**
 * How many sandboxes must be warm. Each claim takes one and a replacement is started at once, so a pool of n is a
 * base-stock of n with one order per demand. Claims arrive by a Poisson process, and replacements take whatever time they
 * take: by Palm's theorem (1938) the number that is being started is then Poisson with mean arrivals × start time,
 * whatever the distribution of start times (Feeney and Sherbrooke, "The (s-1, s) inventory policy under compound Poisson
 * demand", 1966). A claim finds a warm sandbox if fewer than n are being started.
 */
export function hitRatio(warm: number, load: number): number {
  let term = Math.exp(-load)
  let sum = 0
  for (let count = 0; count < warm; count++) {
    sum += term
    term *= load / (count + 1)
  }
  return Math.min(1, sum)
}

/**
 * The same if a claim that finds none starts a sandbox of its own and orders none: Erlang's loss formula (1917). The
 * controller does either, by whether the next one has an address already, so the truth lies between.
 */
export function hitRatioWithLoss(warm: number, load: number): number {
  let blocked = 1
  for (let count = 1; count <= warm; count++) blocked = (load * blocked) / (count + load * blocked)
  return 1 - blocked
}

/** Above this many a sum of Poisson terms would underflow, and a pool is sized by other means. */
export const MAX_LOAD = 500

/** The smallest pool in which at least this share of the claims finds a warm sandbox. */
export function warmSize(load: number, target: number): number {
  let warm = 1
  while (hitRatio(warm, load) < target) warm++
  return warm
}
