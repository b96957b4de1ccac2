/** Maximum width of the search window. It is also limited by the shortest needle. */
const WIDEST_WINDOW = 8

/** A value in hex digits, with or without separators. Matched case-insensitively. */
const HEX = /^(?:[^0-9A-Za-z]{0,3}(?:u|0?x)?[0-9a-f]{2})+$/

/**
 * Searches for many needles at once with the Wu-Manber algorithm: the last two characters of the window
 * determine how far it can move, so most of a text is never read.
 */
export class NeedleSet {
  readonly window: number
  readonly longest: number
  readonly #shifts = new Uint8Array(65_536)
  readonly #byTail = new Map<number, string[]>()
  readonly #beginnings = new Set<string>()
  readonly #hex: ReadonlySet<string>

  constructor(needles: readonly string[]) {
    this.window = Math.min(WIDEST_WINDOW, ...needles.map((needle) => needle.length))
    this.longest = Math.max(0, ...needles.map((needle) => needle.length))
    this.#hex = new Set(needles.filter((needle) => HEX.test(needle)))
    this.#shifts.fill(this.window - 1)
    for (const needle of needles) this.#add(needle)
  }

  #add(needle: string): void {
    for (let i = 1; i < this.window; i++) {
      const pair = pairAt(needle, i)
      this.#shifts[pair] = Math.min(this.#shifts[pair] ?? 0, this.window - 1 - i)
      this.#beginnings.add(needle.slice(0, i).toLowerCase())
    }
    const tail = pairAt(needle, this.window - 1)
    this.#byTail.set(tail, [...(this.#byTail.get(tail) ?? []), needle])
  }

  /**
   * Returns the first index at or after `from` where a needle may begin, or an index after `text.length -
   * window`.
   */
  nextCandidate(text: string, from: number): number {
    let end = from + this.window - 1
    while (end < text.length) {
      const shift = this.#shifts[pairAt(text, end)] ?? 0
      if (shift === 0) return end - this.window + 1
      end += shift
    }
    return end - this.window + 1
  }

  /** Returns the needles that may begin at a candidate. */
  needlesAt(text: string, at: number): readonly string[] {
    return this.#byTail.get(pairAt(text, at + this.window - 1)) ?? []
  }

  /** Returns whether a needle, or the part of it that is available, matches at an index. */
  matches(needle: string, text: string, at: number): boolean {
    if (text.startsWith(needle, at)) return true
    const isHex = this.#hex.has(needle)
    if (!isHex && at + needle.length <= text.length) return false
    const there = text.slice(at, at + needle.length)
    return needle.startsWith(isHex ? there.toLowerCase() : there)
  }

  /** Returns the start of the longest suffix of the text that may begin a needle. */
  openEnd(text: string, from: number): number {
    for (let start = Math.max(from, text.length - this.window + 1); start < text.length; start++) {
      if (this.#beginnings.has(text.slice(start).toLowerCase())) return start
    }
    return text.length
  }
}

/** Ignores letter case. */
const pairAt = (text: string, end: number): number =>
  (((text.charCodeAt(end - 1) | 32) * 251) ^ (text.charCodeAt(end) | 32)) & 0xffff
