export interface PoolModel {
  readonly warm: number
  readonly arrivalsPerSecond: number
  readonly startSeconds: number
  /** How start times vary about their mean. */
  readonly starts: 'fixed' | 'exponential'
  /** What a claim does that finds none: takes one that is starting, or starts its own. */
  readonly whenEmpty: 'takes the next' | 'starts its own'
  readonly claims: number
  readonly seed: number
}

/** Plays a pool claim by claim, and answers the share of claims that found a warm sandbox. */
export function simulatePool(model: PoolModel): number {
  const random = createRandom(model.seed)
  const exponential = (mean: number) => -mean * Math.log(1 - random())
  const startTime = () => (model.starts === 'fixed' ? model.startSeconds : exponential(model.startSeconds))
  /** When each replacement that is under way will be ready. */
  let starting: number[] = []
  let [now, hits, counted] = [0, 0, 0]
  // The pool begins full, which a long-running one is not: claims of the first start times are not counted.
  const warmUp = 10 * model.startSeconds
  while (counted < model.claims) {
    now += exponential(1 / model.arrivalsPerSecond)
    starting = starting.filter((ready) => ready > now)
    const isHit = starting.length < model.warm
    if (isHit || model.whenEmpty === 'takes the next') starting.push(now + startTime())
    if (now < warmUp) continue
    counted++
    if (isHit) hits++
  }
  return hits / counted
}

/** mulberry32: the same numbers everywhere for the same seed. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
