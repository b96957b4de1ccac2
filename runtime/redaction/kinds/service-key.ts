import type { Match } from '../detector.ts'
import { CharClass, type TextReader } from '../text-reader.ts'
import { endOfServiceKey, formatsNamedIn } from './services.ts'

const BEFORE_KEY = new CharClass(/[=> \t"'`\\]/)
const DIGIT = new CharClass(/[0-9]/)
const IN_KEY = new CharClass(/[A-Za-z0-9_=.+%-]/)
const IN_NAME = new CharClass(/[A-Za-z0-9_. "'`\\\]?!:+-]/)
/** Prefix of the digests in lock files and image references. */
const DIGEST = 'sha'
const SHORTEST_KEY = 14
/** A key has a digit within this number of characters. */
const LONGEST_WORD = 64
const LONGEST_GAP = 12
const LONGEST_NAME = 56

/**
 * `DATADOG=…`: the key of a named service, in exactly that service's format. Most values are too short, which
 * is checked first because it needs no further text.
 */
export function serviceKeyAfter(reader: TextReader, at: number): Match | undefined {
  if (isNoKey(reader, at + 1)) return undefined
  const formats = formatsNamedIn(reader.slice(reader.spanStart(at, IN_NAME, LONGEST_NAME), at))
  if (formats.length === 0) return undefined
  const from = reader.spanEnd(at + 1, BEFORE_KEY, LONGEST_GAP)
  const end = endOfServiceKey(reader, from, formats)
  return end === undefined ? undefined : { start: from, end, kind: 'key' }
}

/**
 * Returns whether the available text rules out a key: the value is too short, or a word without digits. Returns
 * false if more text could complete a key. Searched backwards from the minimum length, because most words are
 * short and a blank is found sooner.
 */
function isNoKey({ text }: TextReader, from: number): boolean {
  let start = from
  while (start - from < LONGEST_GAP && BEFORE_KEY.has(text.charCodeAt(start))) start++
  if (text.startsWith(DIGEST, start)) return true
  const least = Math.min(start + SHORTEST_KEY, text.length)
  for (let i = least - 1; i >= start; i--) if (!IN_KEY.has(text.charCodeAt(i))) return true
  const end = endOfWord(text, start)
  return end - start > LONGEST_WORD || (end < text.length && !DIGIT.has(text.charCodeAt(end)))
}

/** The index of the first digit, or of the end of the word. */
function endOfWord(text: string, start: number): number {
  let end = start
  while (end - start <= LONGEST_WORD && isWord(text.charCodeAt(end))) end++
  return end
}

const isWord = (code: number): boolean => IN_KEY.has(code) && !DIGIT.has(code)
