import type { CharClass, TextReader } from './text-reader.ts'

type Swallowed = { readonly end: number; readonly isDone: boolean }

/** Skips the rest of a secret, starting at `from`. */
export interface Swallower {
  swallow(reader: TextReader, from: number): Swallowed
  /** Returns an independent copy in the same state. */
  copy(): Swallower
}

/** Skips all following characters of a class. */
export const swallowClass = (members: CharClass): Swallower => ({
  swallow: ({ text, isComplete }, from) => {
    let end = from
    while (end < text.length && members.has(text.charCodeAt(end))) end++
    return { end, isDone: end < text.length || isComplete }
  },
  copy: () => swallowClass(members),
})

/** Maximum length of a private key's body. A 16,384-bit key has 12,500 characters, more if quoted or numbered. */
const LONGEST_BODY = 32_768
const END_MARK = '-----END'
const END_LINE = /-----END [A-Z0-9 ]{0,48}-----/y
const END_LINE_LENGTH = 62

/** Skips text up to and including the end line of a PEM block, at most the maximum length of a key. */
export function createPemSwallower(most = LONGEST_BODY): Swallower {
  let left = most
  return {
    swallow: (reader, from) => {
      const { text, isComplete } = reader
      const limit = Math.min(text.length, from + left)
      const mark = text.slice(from, limit).indexOf(END_MARK)
      if (mark >= 0) {
        left -= mark
        return endOfBlock(reader, from + mark)
      }
      if (limit === from + left || isComplete) return { end: limit, isDone: true }
      // The end marker may have begun in the available text.
      const end = Math.max(from, limit - END_MARK.length + 1)
      left -= end - from
      return { end, isDone: false }
    },
    copy: () => createPemSwallower(left),
  }
}

/** The end line may be incomplete. */
function endOfBlock({ text, isComplete }: TextReader, at: number): Swallowed {
  if (!isComplete && text.length < at + END_LINE_LENGTH) return { end: at, isDone: false }
  END_LINE.lastIndex = at
  return { end: END_LINE.test(text) ? END_LINE.lastIndex : at + END_MARK.length, isDone: true }
}
