/** A generator of random numbers from a seed. Everything that a round can decide comes from it. */
export interface Random {
  /** At least 0, less than 1. */
  next(): number
  /** A whole number between both bounds, which are included. */
  int(min: number, max: number): number
  chance(probability: number): boolean
  pick<T>(list: readonly T[]): T
  /** An independent generator, so that a change in one part of a plan does not change the other parts. */
  fork(name: string): Random
}

/** Mulberry32: small, and good enough to choose faults. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
  const int = (min: number, max: number) => min + Math.floor(next() * (max - min + 1))
  return {
    next,
    int,
    chance: (probability) => next() < probability,
    pick: (list) => {
      const picked = list[int(0, list.length - 1)]
      if (picked === undefined) throw new TypeError('there is nothing to pick from')
      return picked
    },
    fork: (name) => createRandom(hash(`${seed}/${name}`)),
  }
}

/** FNV-1a over UTF-16 units. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  }
  return value >>> 0
}
