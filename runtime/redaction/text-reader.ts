/**
 * The available part of a text. If a detector reads past its end, the result is discarded and the detector runs
 * again when more text has arrived. Results therefore do not depend on the chunk boundaries.
 */
export class TextReader {
  text = ''
  /** Whether no more text will arrive. */
  isComplete = false
  /** Whether a detector read past the end. */
  sawEnd = false

  /** Returns the character code at an index, or -1 outside the text. */
  at(index: number): number {
    if (index < this.text.length) return index < 0 ? -1 : this.text.charCodeAt(index)
    if (!this.isComplete) this.sawEnd = true
    return -1
  }

  /** Returns whether `word` is at `index`. */
  has(word: string, index: number): boolean {
    for (let i = 0; i < word.length; i++) if (this.at(index + i) !== word.charCodeAt(i)) return false
    return true
  }

  /** Returns whether `word` (lower-case ASCII) is at `index` in any letter case. */
  hasAnyCase(word: string, index: number): boolean {
    for (let i = 0; i < word.length; i++) {
      const c = this.at(index + i)
      if (c !== word.charCodeAt(i) && !(c >= 65 && c <= 90 && c + 32 === word.charCodeAt(i))) return false
    }
    return true
  }

  /**
   * Returns the index of the first character from `from` that is not in the class, after at most `most`
   * characters.
   */
  spanEnd(from: number, members: CharClass, most: number): number {
    let end = from
    while (end - from < most && members.has(this.at(end))) end++
    return end
  }

  /**
   * Returns the index of the first of the characters before `to` that are all in the class, at most `most` of
   * them.
   */
  spanStart(to: number, members: CharClass, most: number): number {
    const { text } = this
    const least = Math.max(0, to - most)
    let start = to
    while (start > least && members.has(text.charCodeAt(start - 1))) start--
    return start
  }

  slice(from: number, to: number): string {
    return this.text.slice(from, to)
  }
}

/** A set of character codes. Either all or none of the codes above ASCII belong to it. */
export class CharClass {
  readonly #members = new Uint8Array(128)
  readonly #others: boolean

  constructor(pattern: RegExp, others = false) {
    for (let c = 0; c < 128; c++) this.#members[c] = pattern.test(String.fromCharCode(c)) ? 1 : 0
    this.#others = others
  }

  has(code: number): boolean {
    return code < 128 ? code >= 0 && this.#members[code] === 1 : this.#others
  }
}
