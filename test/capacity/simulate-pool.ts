export interface PoolModel {
  readonly warm: number
  /** Claims per second × mean start time in seconds. */
  readonly load: number
  readonly dispersion?: number
  /** Distribution of start times. The mean is 1. */
  readonly starts: 'fixed' | 'exponential'
  /** A claim without a warm sandbox takes a starting one, or starts another. */
  readonly whenEmpty?: 'takes the next' | 'starts its own'
  readonly seed: number
}

export interface Simulated {
  readonly hitRatio: number
  /** Estimated from blocks, because consecutive claims are not independent. */
  readonly standardError: number
}

const BLOCKS = 60
const CLAIMS_PER_BLOCK = 4000

/** Simulates a pool: each claim takes a sandbox, and a replacement starts. */
export function simulatePool(model: PoolModel): Simulated {
  const { warm, load, dispersion = 1, starts, whenEmpty = 'takes the next', seed } = model
  const random = createRandom(seed)
  const exponential = (mean: number) => -mean * Math.log(1 - random())
  const again = (dispersion - 1) / (dispersion + 1)
  const burstsPerSecond = load * (1 - again)
  let now = 0
  let starting: number[] = []
  const claim = () => {
    const isHit = starting.length < warm
    if (isHit || whenEmpty === 'takes the next') {
      starting.push(now + (starts === 'fixed' ? 1 : exponential(1)))
    }
    return isHit
  }
  const burst = () => {
    now += exponential(1 / burstsPerSecond)
    starting = starting.filter((ready) => ready > now)
    const hits = [claim()]
    while (random() < again) hits.push(claim())
    return hits
  }
  // Skip the beginning: the pool starts full, unlike a pool in steady state.
  while (now < 30) burst()
  const blocks = Array.from({ length: BLOCKS }, () => {
    const hits: boolean[] = []
    while (hits.length < CLAIMS_PER_BLOCK) hits.push(...burst())
    return hits.filter(Boolean).length / hits.length
  })
  const mean = blocks.reduce((sum, one) => sum + one, 0) / BLOCKS
  const variance = blocks.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (BLOCKS - 1)
  return { hitRatio: mean, standardError: Math.sqrt(variance / BLOCKS) }
}

/** mulberry32: equal numbers for equal seeds on every machine. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
