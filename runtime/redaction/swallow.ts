import type { CharClass, TextReader } from './text-reader.ts'

type Swallowed = { readonly end: number; readonly isDone: boolean }

/** Goes on from `from` through what belongs to the secret before it. */
export interface Swallower {
  swallow(reader: TextReader, from: number): Swallowed
  /** One that has swallowed as much; from here on each goes its own way. */
  copy(): Swallower
}

/** Swallows every further character of a class. */
export const swallowClass = (members: CharClass): Swallower => ({
  swallow: ({ text, isComplete }, from) => {
    let end = from
    while (end < text.length && members.has(text.charCodeAt(end))) end++
    return { end, isDone: end < text.length || isComplete }
  },
  copy: () => swallowClass(members),
})

/** Longest body of a private key; one of 16,384 bits has 12.5 thousand characters, quoted or numbered some more. */
const LONGEST_BODY = 32_768
const END_MARK = '-----END'
const END_LINE = /-----END [A-Z0-9 ]{0,48}-----/y
const END_LINE_LENGTH = 62

/** Swallows up to and with the line that ends a PEM block, at most the length that a key can have. */
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
      // The mark may have begun in what is there.
      const end = Math.max(from, limit - END_MARK.length + 1)
      left -= end - from
      return { end, isDone: false }
    },
    copy: () => createPemSwallower(left),
  }
}

/** The closing line may not have come wholly. */
function endOfBlock({ text, isComplete }: TextReader, at: number): Swallowed {
  if (!isComplete && text.length < at + END_LINE_LENGTH) return { end: at, isDone: false }
  END_LINE.lastIndex = at
  return { end: END_LINE.test(text) ? END_LINE.lastIndex : at + END_MARK.length, isDone: true }
}
