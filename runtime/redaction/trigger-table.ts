import type { Detector } from './detector.ts'

/** Finds the places in a text where a detector could begin, by two neighbouring characters at a time. */
export class TriggerTable {
  /** For each pair of ASCII characters the number of its detectors' list; 0 is none. */
  readonly #lists = new Uint8Array(128 * 128)
  readonly #detectors: (readonly Detector[])[] = [[]]
  readonly #beginnings = new Uint8Array(128)

  constructor(detectors: readonly Detector[]) {
    const numbers = new Map<string, number>()
    for (const [pair, members] of membersByPair(detectors)) {
      const name = members.join()
      const number =
        numbers.get(name) ?? this.#detectors.push(members.flatMap((at) => detectors[at] ?? [])) - 1
      numbers.set(name, number)
      this.#lists[pair] = number
      this.#beginnings[pair >> 7] = 1
    }
  }

  /** The first place at or after `from` whose character and the next one are a trigger; `to - 1` if there is none. */
  next(text: string, from: number, to: number): number {
    const lists = this.#lists
    let first = from < to ? text.charCodeAt(from) : 0
    for (let at = from; at < to - 1; at++) {
      const second = text.charCodeAt(at + 1)
      if (lists[((first & 127) << 7) | (second & 127)] !== 0) {
        // Beyond ASCII the seven low bits mean nothing; the second character may, for a one-character trigger.
        if (first < 128) return at
      }
      first = second
    }
    return Math.max(from, to - 1)
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

const ASCII = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code))
const codesOf = (wanted: RegExp): number[] =>
  ASCII.flatMap((character, code) => (wanted.test(character) ? [code] : []))

/**
 * For each pair of ASCII characters that is a trigger the numbers of its detectors, in their order. Each class is
 * tried on each character once: to try both on all pairs takes 15 to 30 ms.
 */
function membersByPair(detectors: readonly Detector[]): Map<number, number[]> {
  const byPair = new Map<number, number[]>()
  for (const [number, { triggers }] of detectors.entries()) {
    for (const pair of new Set(triggers.flatMap(pairsOf))) {
      const members = byPair.get(pair) ?? []
      members.push(number)
      byPair.set(pair, members)
    }
  }
  return byPair
}

function pairsOf([first, second]: Detector['triggers'][number]): number[] {
  const seconds = codesOf(second)
  return codesOf(first).flatMap((code) => seconds.map((next) => (code << 7) | next))
}
