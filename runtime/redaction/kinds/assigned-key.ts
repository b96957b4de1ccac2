import { CharClass, type TextReader } from '../text-reader.ts'
import { mayEndKey } from './sensitive-keys.ts'

const KEY = new CharClass(/[A-Za-z0-9_.-]/)
const LONGEST_KEY = 64
const AFTER_KEY = new CharClass(/[ \t"'`\\\]?!]/)
/** Before `=`, also the other characters of `:=`, `+=`, `.=`, and the blanks of aligned settings. */
const BEFORE_EQUALS = new CharClass(/[ \t"'`\\\]?!:+.]/)
const LONGEST_GAP = 24
const BETWEEN_NAME_AND_TYPE = new CharClass(/[ \t:?]/)
const LONGEST_BEFORE_TYPE = 4
const EQUALS = 61

/** `const token: string = …`, `var token string = …` */
const TYPE = /^(?:string|str|char|text|varchar)$/i

/** The name before the operator at `at`, if it may name a secret. */
export interface AssignedKey {
  readonly name: string
  readonly start: number
  /** End of the name. Quotes and blanks may follow before the operator. */
  readonly end: number
}

export function keyBefore(reader: TextReader, at: number): AssignedKey | undefined {
  const isEquals = reader.at(at) === EQUALS
  const gap = isEquals ? BEFORE_EQUALS : AFTER_KEY
  const end = reader.spanStart(at, gap, LONGEST_GAP)
  if (!mayEndKey(reader.at(end - 2), reader.at(end - 1), isEquals)) return undefined
  const key = keyEndingAt(reader, end)
  if (!isEquals || !TYPE.test(key.name)) return key
  const nameEnd = reader.spanStart(key.start, BETWEEN_NAME_AND_TYPE, LONGEST_BEFORE_TYPE)
  return nameEnd === key.start ? key : keyEndingAt(reader, nameEnd)
}

export function keyEndingAt(reader: TextReader, end: number): AssignedKey {
  const start = reader.spanStart(end, KEY, LONGEST_KEY)
  return { name: reader.slice(start, end), start, end }
}
