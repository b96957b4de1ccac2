import type { Detector } from './detector.ts'

/**
 * Finds the places in a text where a detector could begin, by two neighbouring characters at a time, and the third
 * where two are frequent.
 */
export class TriggerTable {
  /** For each pair of ASCII characters the number of its detectors' list; 0 is none. */
  readonly #lists = new Uint8Array(128 * 128)
  readonly #detectors: (readonly Detector[])[] = [[]]
  /** For each list and each ASCII character whether a trigger of the list goes on with it. */
  readonly #thirds: Uint8Array
  readonly #beginnings = new Uint8Array(128)

  constructor(detectors: readonly Detector[]) {
    const numbers = new Map<string, number>()
    const thirds: Uint8Array[] = [new Uint8Array(128)]
    for (const [pair, { members, third }] of triggersByPair(detectors)) {
      const name = `${members} ${third}`
      const number =
        numbers.get(name) ?? this.#detectors.push(members.flatMap((at) => detectors[at] ?? [])) - 1
      numbers.set(name, number)
      thirds[number] = third
      this.#lists[pair] = number
      this.#beginnings[pair >> 7] = 1
    }
    if (this.#detectors.length > MOST_LISTS) throw new Error('The triggers overlap in too many ways.')
    this.#thirds = new Uint8Array(this.#detectors.length * 128)
    for (const [number, third] of thirds.entries()) this.#thirds.set(third, number * 128)
  }

  /** The first place at or after `from` whose character and the next one are a trigger; `to - 1` if there is none. */
  next(text: string, from: number, to: number): number {
    const lists = this.#lists
    let first = from < to ? text.charCodeAt(from) : 0
    for (let at = from; at < to - 1; at++) {
      const second = text.charCodeAt(at + 1)
      const list = lists[((first & 127) << 7) | (second & 127)] ?? 0
      // Beyond ASCII the seven low bits mean nothing; the second character may, for a one-character trigger.
      if (list !== 0 && first < 128 && this.#goesOn(list, text, at + 2)) return at
      first = second
    }
    return Math.max(from, to - 1)
  }

  /** A third character that has not come, or is not ASCII, is left to the detectors. */
  #goesOn(list: number, text: string, at: number): boolean {
    const third = at < text.length ? text.charCodeAt(at) : 128
    return third > 127 || this.#thirds[(list << 7) | third] === 1
  }

  /** Whether a character could be a trigger's first. */
  canBegin(code: number): boolean {
    return code < 128 && this.#beginnings[code] === 1
  }

  /** The detectors for the place `at`; the end of a text counts as a character that is no other. */
  detectorsAt(text: string, at: number): readonly Detector[] {
    const first = text.charCodeAt(at)
    const second = at + 1 < text.length ? text.charCodeAt(at + 1) : 0
    if (first > 127) return []
    return this.#detectors[this.#lists[(first << 7) | (second & 127)] ?? 0] ?? []
  }
}

/** Lists are numbered in a byte. */
const MOST_LISTS = 256
const ASCII = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code))
const codesOf = (wanted: RegExp): number[] =>
  ASCII.flatMap((character, code) => (wanted.test(character) ? [code] : []))

interface PairTriggers {
  /** The numbers of the detectors, in their order. */
  readonly members: readonly number[]
  /** The characters that a trigger goes on with. */
  readonly third: Uint8Array
}

/**
 * The triggers of each pair of ASCII characters. Each class is tried on each character once: to try both on all
 * pairs takes 15 to 30 ms.
 */
function triggersByPair(detectors: readonly Detector[]): Map<number, PairTriggers> {
  const byPair = new Map<number, PairTriggers>()
  for (const [number, { triggers }] of detectors.entries()) {
    for (const [first, second, third] of triggers) {
      const mask = maskOf(third)
      for (const pair of pairsOf(first, second)) byPair.set(pair, withTrigger(byPair.get(pair), number, mask))
    }
  }
  return byPair
}

const withTrigger = (
  { members, third }: PairTriggers = { members: [], third: new Uint8Array(128) },
  number: number,
  mask: Uint8Array,
): PairTriggers => ({
  members: members.includes(number) ? members : [...members, number],
  third: third.map((wanted, code) => wanted | (mask[code] ?? 0)),
})

function maskOf(wanted: RegExp | undefined): Uint8Array {
  const mask = new Uint8Array(128)
  for (const code of wanted ? codesOf(wanted) : ASCII.keys()) mask[code] = 1
  return mask
}

function pairsOf(first: RegExp, second: RegExp): number[] {
  const seconds = codesOf(second)
  return codesOf(first).flatMap((code) => seconds.map((next) => (code << 7) | next))
}
