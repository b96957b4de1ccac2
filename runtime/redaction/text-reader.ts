/**
 * The part of a text that is there. A detector that asks for a character behind its end has its answer thrown
 * away and is asked again when more has come: so no result depends on where the text was cut.
 */
export class TextReader {
  text = ''
  /** No more will come. */
  isComplete = false
  /** A character behind the end was asked for. */
  sawEnd = false

  /** The character's code, or -1 before the beginning and behind the end. */
  at(index: number): number {
    if (index < this.text.length) return index < 0 ? -1 : this.text.charCodeAt(index)
    if (!this.isComplete) this.sawEnd = true
    return -1
  }

  /** Whether `word` stands at `index`. */
  has(word: string, index: number): boolean {
    for (let i = 0; i < word.length; i++) if (this.at(index + i) !== word.charCodeAt(i)) return false
    return true
  }

  /** Whether `word`, which is lower case ASCII, stands at `index` in any letter case. */
  hasAnyCase(word: string, index: number): boolean {
    for (let i = 0; i < word.length; i++) {
      const c = this.at(index + i)
      if (c !== word.charCodeAt(i) && !(c >= 65 && c <= 90 && c + 32 === word.charCodeAt(i))) return false
    }
    return true
  }

  /** Index of the first character from `from` that is not of the class; at most `most` are looked at. */
  spanEnd(from: number, members: CharClass, most: number): number {
    let end = from
    while (end - from < most && members.has(this.at(end))) end++
    return end
  }

  /** Index of the first of the characters before `to` that are all of the class; at most `most` are looked at. */
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

/** A set of character codes; those above ASCII are in or out together. */
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
