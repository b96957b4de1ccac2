export interface PoolModel {
  readonly warm: number
  /** Claims per second, times the mean seconds of a start. */
  readonly load: number
  readonly dispersion?: number
  /** How start times vary about their mean, which is 1. */
  readonly starts: 'fixed' | 'exponential'
  /** What a claim does that finds no warm sandbox: takes one that is starting, or starts one of its own. */
  readonly whenEmpty?: 'takes the next' | 'starts its own'
  readonly seed: number
}

export interface Simulated {
  readonly hitRatio: number
  /** From the spread of the blocks: claims that follow each other are not independent. */
  readonly standardError: number
}

const BLOCKS = 60
const CLAIMS_PER_BLOCK = 4000

/** Plays a pool claim by claim: each takes a sandbox, and one is started in its place. */
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
  // A pool begins full, and one that has worked for long is not.
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
