import type { Detector, Match } from '../detector.ts'
import { ANY, MAX_AHEAD } from '../detector.ts'
import { CharClass, type TextReader } from '../text-reader.ts'
import { keyBefore } from './assigned-key.ts'
import { type Assignment, isNoSecret, isQuotedSecret, isUnquotedSecret } from './assigned-value.ts'
import { kindOfNamedValue } from './named-value.ts'
import { mayEndKey, sensitiveKey } from './sensitive-keys.ts'
import { serviceKeyAfter } from './service-key.ts'

const BLANK = new CharClass(/[ \t]/)
const BACKSLASH = new CharClass(/[\\]/)
const QUOTE = new CharClass(/["'`]/)
const UNQUOTED = new CharClass(/[^\s"'`;,&<>(){}|\\\x00-\x1f]/, true)
const DOUBLE_QUOTED = new CharClass(/[^"\r\n]/, true)
const SINGLE_QUOTED = new CharClass(/[^'\r\n]/, true)
const BACK_QUOTED = new CharClass(/[^`]/, true)
const OPERATOR = new CharClass(/[=>]/)
const SCHEMES = ['bearer', 'basic', 'token', 'digest', 'apikey', 'api-key', 'api-token', 'negotiate']

/** `password=…`, `"token": "…"`, `AccountKey=…`: the name says that the value is a secret. */
export const assignments: Detector = {
  triggers: [[/[=:]/, ANY]],
  detect: (reader, at) => {
    const key = keyBefore(reader, at)
    const kind = key && (sensitiveKey(key.name, reader.at(key.start - 1)) ?? kindOfNamedValue(reader, key))
    const match = key && kind && valueAfter(reader, { at, key, kind })
    return match ?? serviceKeyAfter(reader, at)
  },
}

function valueAfter(reader: TextReader, assignment: Assignment): Match | undefined {
  const { at } = assignment
  const afterOperator = reader.spanEnd(at + 1, OPERATOR, 3)
  const from = skipScheme(reader, reader.spanEnd(afterOperator, BLANK, 16))
  const slashes = reader.spanEnd(from, BACKSLASH, 8)
  const quote = reader.at(slashes)
  if (QUOTE.has(quote)) {
    if (endsQuotedText(reader, assignment, quote)) return undefined
    return quotedValue(reader, assignment, { from: slashes + 1, quote, isEscaped: slashes > from })
  }
  const end = reader.spanEnd(from, UNQUOTED, MAX_AHEAD - 64)
  const isTight = reader.at(at) === EQUALS && from === at + 1
  return isUnquotedSecret(assignment, { value: reader.slice(from, end), next: reader.at(end), isTight })
    ? { start: from, end, kind: assignment.kind, rest: UNQUOTED }
    : undefined
}

const EQUALS = 61

/** Skips the scheme in `Authorization: Bearer …`. */
function skipScheme(reader: TextReader, from: number): number {
  const scheme = SCHEMES.find(
    (word) => reader.hasAnyCase(word, from) && BLANK.has(reader.at(from + word.length)),
  )
  return scheme === undefined ? from : reader.spanEnd(from + scheme.length, BLANK, 8)
}

/** `'Password: '`: the quote after the colon closes the string that contains the name. */
const endsQuotedText = (reader: TextReader, { at, key }: Assignment, quote: number): boolean =>
  reader.at(key.start - 1) === quote && !reader.slice(key.end, at).includes(String.fromCharCode(quote))

const INSIDE: Readonly<Record<number, CharClass>> = { 34: DOUBLE_QUOTED, 39: SINGLE_QUOTED, 96: BACK_QUOTED }

interface Quoted {
  readonly from: number
  readonly quote: number
  /** Whether the quotes are escaped, as in JSON inside a JSON string. */
  readonly isEscaped: boolean
}

function quotedValue(reader: TextReader, assignment: Assignment, quoted: Quoted): Match | undefined {
  const { from, quote } = quoted
  const members = INSIDE[quote] ?? DOUBLE_QUOTED
  const { end, isCut } = quotedEnd(reader, quoted, members)
  const isComparison = reader.at(assignment.at + 1) === EQUALS || reader.at(assignment.at - 1) === EXCLAMATION
  if (!isQuotedSecret(assignment, reader.slice(from, end), isComparison)) return undefined
  return { start: from, end, kind: assignment.kind, ...(isCut ? { rest: members } : {}) }
}

const EXCLAMATION = 33

function quotedEnd(reader: TextReader, { from, quote, isEscaped }: Quoted, members: CharClass) {
  const limit = from + MAX_AHEAD - 64
  let end = reader.spanEnd(from, members, limit - from)
  const isBackslashed = () => reader.at(end - 1) === 92
  // An escaped quote is part of the value, unless the enclosing quotes are escaped too.
  while (!isEscaped && end < limit && reader.at(end) === quote && isBackslashed()) {
    end = reader.spanEnd(end + 1, members, limit - end - 1)
  }
  const isCut = end >= limit
  while (isEscaped && end > from && isBackslashed()) end--
  return { end, isCut }
}

/** `<password>…</password>`: the element's name says that the content is a secret. */
export const elements: Detector = {
  triggers: [[/>/, /[^<>=\s]|\s/]],
  detect: (reader, at) => {
    if (!mayEndKey(reader.at(at - 2), reader.at(at - 1), false)) return undefined
    const key = keyBefore(reader, at)
    if (!key || key.end !== at || reader.at(key.start - 1) !== LESS) return undefined
    const kind = sensitiveKey(key.name, LESS)
    if (kind === undefined) return undefined
    const from = reader.spanEnd(at + 1, SPACE, 64)
    const end = reader.spanEnd(from, UNQUOTED, MAX_AHEAD - 160)
    if (end === from || !reader.has('</', reader.spanEnd(end, SPACE, 64))) return undefined
    return isNoSecret(reader.slice(from, end)) ? undefined : { start: from, end, kind }
  },
}

const SPACE = new CharClass(/\s/)
const LESS = 60
