import type { Detector, Match } from '../detector.ts'
import { ANY, MAX_AHEAD } from '../detector.ts'
import { isMarker, type RedactedKind } from '../marker.ts'
import { CharClass, type TextReader } from '../text-reader.ts'
import { mayEndSensitiveKey, sensitiveKey } from './sensitive-keys.ts'
import { isCodePath, isKeyword, isPlaceholder } from './values.ts'

const KEY = new CharClass(/[A-Za-z0-9_.-]/)
const AFTER_KEY = new CharClass(/[ \t"'`\\\]?!]/)
const LONGEST_KEY = 64
const BLANK = new CharClass(/[ \t]/)
const BACKSLASH = new CharClass(/[\\]/)
const QUOTE = new CharClass(/["'`]/)
const UNQUOTED = new CharClass(/[^\s"'`;,&<>(){}|\\\x00-\x1f]/, true)
const DOUBLE_QUOTED = new CharClass(/[^"\r\n]/, true)
const SINGLE_QUOTED = new CharClass(/[^'\r\n]/, true)
const BACK_QUOTED = new CharClass(/[^`]/, true)
const OPERATOR = new CharClass(/[=>]/)
const SCHEMES = ['bearer', 'basic', 'token', 'digest', 'apikey', 'negotiate']

/** `password=…`, `"token": "…"`, `AccountKey=…`: what a name says is a secret. */
export const assignments: Detector = {
  triggers: [[/[=:]/, ANY]],
  detect: (reader, at) => {
    const key = keyBefore(reader, at)
    const kind = key === undefined ? undefined : sensitiveKey(key, reader.at(at - key.length - 1))
    if (key === undefined || kind === undefined) return undefined
    return valueAfter(reader, { at, key, kind })
  },
}

interface Assignment {
  readonly at: number
  readonly key: string
  readonly kind: RedactedKind
}

function keyBefore(reader: TextReader, at: number): string | undefined {
  let end = at
  while (at - end < 6 && AFTER_KEY.has(reader.at(end - 1))) end--
  if (!mayEndSensitiveKey(reader.at(end - 2), reader.at(end - 1))) return undefined
  let start = end
  while (end - start < LONGEST_KEY && KEY.has(reader.at(start - 1))) start--
  return reader.slice(start, end)
}

function valueAfter(reader: TextReader, assignment: Assignment): Match | undefined {
  const afterOperator = reader.spanEnd(assignment.at + 1, OPERATOR, 3)
  const from = skipScheme(reader, reader.spanEnd(afterOperator, BLANK, 16))
  const slashes = reader.spanEnd(from, BACKSLASH, 8)
  const quote = reader.at(slashes)
  if (QUOTE.has(quote))
    return quotedValue(reader, assignment, { from: slashes + 1, quote, isEscaped: slashes > from })
  const isTight = reader.at(assignment.at) === 61 && from === assignment.at + 1
  return unquotedValue(reader, assignment, { from, isTight })
}

/** The word before the credentials in `Authorization: Bearer …`. */
function skipScheme(reader: TextReader, from: number): number {
  const scheme = SCHEMES.find(
    (word) => reader.hasAnyCase(word, from) && BLANK.has(reader.at(from + word.length)),
  )
  return scheme === undefined ? from : reader.spanEnd(from + scheme.length, BLANK, 8)
}

const INSIDE: Readonly<Record<number, CharClass>> = { 34: DOUBLE_QUOTED, 39: SINGLE_QUOTED, 96: BACK_QUOTED }

interface Quoted {
  readonly from: number
  readonly quote: number
  /** The quotes are escaped themselves: JSON inside a JSON string. */
  readonly isEscaped: boolean
}

function quotedValue(reader: TextReader, { key, kind }: Assignment, quoted: Quoted): Match | undefined {
  const { from, quote } = quoted
  const members = INSIDE[quote] ?? DOUBLE_QUOTED
  const { end, isCut } = quotedEnd(reader, quoted, members)
  const value = reader.slice(from, end)
  if (isNoSecret(value) || value.toLowerCase() === key.toLowerCase()) return undefined
  if (kind === 'azure-secret' && value.length < 16) return undefined
  return { start: from, end, kind, ...(isCut ? { rest: members } : {}) }
}

function quotedEnd(reader: TextReader, { from, quote, isEscaped }: Quoted, members: CharClass) {
  const limit = from + MAX_AHEAD - 64
  let end = reader.spanEnd(from, members, limit - from)
  const isBackslashed = () => reader.at(end - 1) === 92
  // An escaped quote is a part of the value, unless the quotes around the value are escaped themselves.
  while (!isEscaped && end < limit && reader.at(end) === quote && isBackslashed()) {
    end = reader.spanEnd(end + 1, members, limit - end - 1)
  }
  const isCut = end >= limit
  while (isEscaped && end > from && isBackslashed()) end--
  return { end, isCut }
}

const isNoSecret = (value: string): boolean =>
  value === '' || isMarker(value) || isPlaceholder(value) || isKeyword(value)

function unquotedValue(
  reader: TextReader,
  { at, key, kind }: Assignment,
  { from, isTight }: { from: number; isTight: boolean },
): Match | undefined {
  const end = reader.spanEnd(from, UNQUOTED, MAX_AHEAD - 64)
  const value = reader.slice(from, end)
  if (isNoSecret(value)) return undefined
  const next = reader.at(end)
  const isCode = next === 40 || next === 96 || isCodePath(value) || namesItself(value, key)
  if (isCode || isPathOfPwd(key, value)) return undefined
  const isSecret = isTight
    ? looksTight(value, kind)
    : looksLoose(value, kind, isLineEnd(next) && reader.at(at) === 58)
  return isSecret ? { start: from, end, kind, rest: UNQUOTED } : undefined
}

/** `token=token`, `token = nextToken`: a name for a value, not the value. */
const namesItself = (value: string, key: string): boolean =>
  /^[A-Za-z_$][A-Za-z_$]*\d?$/.test(value) &&
  /password|passwd|passphrase|secret|token|key|credential/i.test(value) &&
  value.length <= key.length + 24

/** The shell's PWD and OLDPWD are folders. */
const isPathOfPwd = (key: string, value: string): boolean =>
  /pwd$/i.test(key) && /^(?:[/~.]|[A-Za-z]:)/.test(value)

const isLineEnd = (code: number): boolean => code === -1 || code === 10 || code === 13

/** After `=` without blanks, as in settings and command lines. */
const looksTight = (value: string, kind: RedactedKind): boolean => {
  if (kind === 'azure-secret') return value.length >= 16
  return kind === 'password' || value.length >= 6 ? !/^[=]*$/.test(value) : false
}

/** After a colon or blanks, as in YAML and in code, where most words are types and names. */
function looksLoose(value: string, kind: RedactedKind, endsLine: boolean): boolean {
  const hasDigit = /\d/.test(value)
  if (kind === 'azure-secret') return value.length >= 16 && hasDigit
  if (/^\d+$/.test(value)) return kind === 'password' && value.length >= 4
  if (hasDigit && value.length >= 6) return true
  if (/^[A-Za-z_$][\w$.-]*$/.test(value)) return looksLikeWord(value, kind, endsLine)
  return kind === 'password' ? value.length >= 8 : value.length >= 16
}

/** A word without digits: a password where it ends a line of settings, a key where it is long and no name. */
const looksLikeWord = (value: string, kind: RedactedKind, endsLine: boolean): boolean =>
  kind === 'password' && endsLine && value.length >= 4
    ? /^[a-z]+$/.test(value)
    : value.length >= 24 && /[A-Z]/.test(value) && !/^[A-Z]?[a-z]+(?:[A-Z][a-z]+)*$/.test(value)
