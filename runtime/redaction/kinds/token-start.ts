import { CharClass, type TextReader } from '../text-reader.ts'

const WORD = new CharClass(/[A-Za-z0-9_]/)
const HEX = new CharClass(/[0-9A-Fa-f]/)
const ESCAPED_LETTER = new CharClass(/[abefnrtv0]/)
const COLOUR_NUMBERS = new CharClass(/[0-9;]/)
const LONGEST_COLOUR = 20

/**
 * Returns whether a token can begin at `at`, not in the middle of a word. The end of an escape sequence does
 * not count as a word: `
 * ` and `\u003d` in JSON, `%3D` in a URL, terminal colours.
 */
export const startsToken = (reader: TextReader, at: number): boolean =>
  !WORD.has(reader.at(at - 1)) || endsEscape(reader, at)

function endsEscape(reader: TextReader, at: number): boolean {
  const last = reader.at(at - 1)
  if (reader.at(at - 2) === BACKSLASH) return ESCAPED_LETTER.has(last)
  if (last === SMALL_M) return endsColour(reader, at - 1)
  if (!HEX.has(last) || !HEX.has(reader.at(at - 2))) return false
  const mark = reader.at(at - 3)
  if (mark === PERCENT || (mark === SMALL_X && reader.at(at - 4) === BACKSLASH)) return true
  return HEX.has(mark) && HEX.has(reader.at(at - 4)) && reader.has('\\u', at - 6)
}

function endsColour(reader: TextReader, at: number): boolean {
  const start = reader.spanStart(at, COLOUR_NUMBERS, LONGEST_COLOUR)
  if (reader.at(start - 1) !== BRACKET) return false
  const bracket = start - 1
  return (
    reader.at(bracket - 1) === ESCAPE ||
    ['\\x1b', '\\x1B', '\\033', '\\e'].some((written) => reader.has(written, bracket - written.length)) ||
    ['\\u001b', '\\u001B'].some((written) => reader.has(written, bracket - written.length))
  )
}

const BACKSLASH = 92
const PERCENT = 37
const BRACKET = 91
const ESCAPE = 27
const SMALL_M = 109
const SMALL_X = 120
