import { isMarker, type RedactedKind } from '../marker.ts'
import type { AssignedKey } from './assigned-key.ts'
import { isCodePath, isKeyword, isPlaceholder, looksRandom } from './values.ts'

/** An assignment at `at` to a name that names a secret. */
export interface Assignment {
  readonly at: number
  readonly key: AssignedKey
  readonly kind: RedactedKind
}

/** The quote before the value was a closing quote, and code follows: `"Secret: ", name`. */
const GOES_ON = /^(?:,\s|\s*[+%]\s|;\s|\)\s*(?:[;:,).]|$))/
const URL = /^https?:\/\/[^@]*$/i
const VERSION = /^[~^<>=v]{0,2}\d+(?:\.(?:\d+|x|\*)){1,2}(?:-[a-z]+[\w.-]*)?$/

export const isNoSecret = (value: string): boolean =>
  value === '' ||
  isMarker(value) ||
  isPlaceholder(value) ||
  isKeyword(value) ||
  VERSION.test(value) ||
  URL.test(value)

export function isQuotedSecret({ key, kind }: Assignment, value: string, isComparison: boolean): boolean {
  if (isNoSecret(value) || value.toLowerCase() === key.name.toLowerCase() || GOES_ON.test(value)) return false
  if (kind === 'azure-secret' && value.length < 16) return false
  // Tokens and credential names are mostly compared with words of a language or protocol.
  if (isComparison && kind === 'key') return value.length >= 8 && looksRandom(value, 1)
  return !(/credentials$/i.test(key.name) && /^[a-z-]+$/.test(value))
}

interface Unquoted {
  readonly value: string
  /** The character after the value. */
  readonly next: number
  /** Whether the value follows `=` without a blank. */
  readonly isTight: boolean
}

export function isUnquotedSecret(assignment: Assignment, { value, next, isTight }: Unquoted): boolean {
  const { key, kind } = assignment
  if (isNoSecret(value) || isCode(value, next) || namesItself(value, key.name)) return false
  if (isPathOfPwd(key.name, value)) return false
  return isTight ? looksTight(value, kind) : looksLoose(value, kind, isLineEnd(next))
}

/** A call, a template string, a member access, a generic type. */
const isCode = (value: string, next: number): boolean =>
  next === 40 || next === 96 || isCodePath(value) || (next === 60 && /^[A-Z]\w*$/.test(value))

/** `token=token`, `token = nextToken`: a variable name, not a value. */
const namesItself = (value: string, key: string): boolean =>
  /^[A-Za-z_$][A-Za-z_$]*\d?$/.test(value) &&
  /password|passwd|passphrase|secret|token|key|credential|auth/i.test(value) &&
  value.length <= key.length + 24

/** In a shell, PWD and OLDPWD are directories. */
const isPathOfPwd = (key: string, value: string): boolean =>
  /pwd$/i.test(key) && /^(?:[/~.]|[A-Za-z]:)/.test(value)

const isLineEnd = (code: number): boolean => code === -1 || code === 10 || code === 13

/** After `=` without blanks, as in settings and command lines. */
const looksTight = (value: string, kind: RedactedKind): boolean => {
  if (kind === 'azure-secret') return value.length >= 16
  return kind === 'password' || value.length >= 6 ? !/^[=]*$/.test(value) : false
}

/** After a colon or blanks, as in YAML and source code, where most words are types and names. */
function looksLoose(value: string, kind: RedactedKind, endsLine: boolean): boolean {
  const hasDigit = /\d/.test(value)
  if (kind === 'azure-secret') return value.length >= 16 && hasDigit
  if (/^\d+$/.test(value)) return kind === 'password' && value.length >= 4
  if (hasDigit && value.length >= 6) return true
  if (/^[A-Za-z_$][\w$.-]*$/.test(value)) return looksLikeWord(value, kind, endsLine)
  return kind === 'password' ? value.length >= 8 : value.length >= 16
}

/** A word without digits: a password at the end of a line of settings, or a long key that is not a name. */
const looksLikeWord = (value: string, kind: RedactedKind, endsLine: boolean): boolean =>
  kind === 'password' && endsLine && value.length >= 4
    ? /^[a-z]+$/.test(value)
    : value.length >= 24 && /[A-Z]/.test(value) && !isCamelCase(value)

/** Words joined in camel case have at least four letters on average. */
const isCamelCase = (value: string): boolean =>
  /^[A-Za-z]+$/.test(value) && (value.match(/[A-Z]+[a-z]*|[a-z]+/g)?.length ?? 0) <= value.length / 4
