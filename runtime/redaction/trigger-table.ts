import type { Detector } from './detector.ts'

/**
 * Finds positions in a text where a detector may begin, by two neighbouring characters, and by a third one if a
 * pair is frequent.
 */
export class TriggerTable {
  /** For each pair of ASCII characters, the number of its list of detectors; 0 if no detector has it. */
  readonly #lists = new Uint8Array(128 * 128)
  readonly #detectors: (readonly Detector[])[] = [[]]
  /** For each list and ASCII character, whether a trigger of the list continues with it. */
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

  /** Returns the first position at or after `from` that matches a trigger, or `to - 1`. */
  next(text: string, from: number, to: number): number {
    const lists = this.#lists
    let first = from < to ? text.charCodeAt(from) : 0
    for (let at = from; at < to - 1; at++) {
      const second = text.charCodeAt(at + 1)
      const list = lists[((first & 127) << 7) | (second & 127)] ?? 0
      // The index uses the low seven bits, so a non-ASCII first character must be excluded. A non-ASCII second
      // character may match a trigger with one character.
      if (list !== 0 && first < 128 && this.#goesOn(list, text, at + 2)) return at
      first = second
    }
    return Math.max(from, to - 1)
  }

  /** If the third character is missing or not ASCII, the detectors decide. */
  #goesOn(list: number, text: string, at: number): boolean {
    const third = at < text.length ? text.charCodeAt(at) : 128
    return third > 127 || this.#thirds[(list << 7) | third] === 1
  }

  /** Returns whether a character can begin a trigger. */
  canBegin(code: number): boolean {
    return code < 128 && this.#beginnings[code] === 1
  }

  /** Returns the detectors for a position. At the end of the text, the second character counts as NUL. */
  detectorsAt(text: string, at: number): readonly Detector[] {
    const first = text.charCodeAt(at)
    const second = at + 1 < text.length ? text.charCodeAt(at + 1) : 0
    if (first > 127) return []
    return this.#detectors[this.#lists[(first << 7) | (second & 127)] ?? 0] ?? []
  }
}

/** List numbers are stored in one byte. */
const MOST_LISTS = 256
const ASCII = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code))
const codesOf = (wanted: RegExp): number[] =>
  ASCII.flatMap((character, code) => (wanted.test(character) ? [code] : []))

interface PairTriggers {
  /** The detectors' numbers, in order. */
  readonly members: readonly number[]
  /** The characters with which a trigger continues. */
  readonly third: Uint8Array
}

/**
 * Collects the triggers of each pair of ASCII characters. Each class is tested on each character once: testing
 * both classes on all pairs takes 15 to 30 ms.
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
