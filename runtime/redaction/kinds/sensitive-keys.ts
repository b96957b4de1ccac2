import type { RedactedKind } from '../marker.ts'

/** Endings of names, without separators, that say what the value is; longer ones first. */
const ENDINGS: readonly (readonly [string, RedactedKind])[] = [
  ['sharedaccesssignature', 'azure-secret'],
  ['sharedaccesskey', 'azure-secret'],
  ['accountkey', 'azure-secret'],
  ['connectionstring', 'azure-secret'],
  ['subscriptionkey', 'key'],
  ['encryptionkey', 'key'],
  ['accesskey', 'key'],
  ['secretkey', 'key'],
  ['privatekey', 'key'],
  ['signingkey', 'key'],
  ['masterkey', 'key'],
  ['licensekey', 'key'],
  ['sessionkey', 'key'],
  ['storagekey', 'key'],
  ['authkey', 'key'],
  ['apikey', 'key'],
  ['apitoken', 'key'],
  ['authorization', 'key'],
  ['credential', 'password'],
  ['credentials', 'password'],
  ['passphrase', 'password'],
  ['password', 'password'],
  ['passwd', 'password'],
  ['secret', 'password'],
  ['token', 'key'],
  ['pwd', 'password'],
  // Bundler's credentials for a server of gems are called after the server.
  ['contribsyscom', 'password'],
]

/** What the last two letters of a name leave open. */
const SENSITIVE = 1
const VALUE = 2
const TYPE = 4

/** By the last two letters, of which the five low bits are looked at: nearly every name is refused by them alone. */
const LAST_TWO = new Uint8Array(32 * 32)
markEndings([...ENDINGS.map(([text]) => text), 'sig', 'pass', 'pw'], SENSITIVE)
markEndings(['value'], VALUE)
markEndings(['string', 'str', 'char', 'varchar', 'text'], TYPE)

function markEndings(names: readonly string[], mark: number): void {
  for (const name of names) {
    const pair = pairOf(name.charCodeAt(name.length - 2), name.charCodeAt(name.length - 1))
    LAST_TWO[pair] = (LAST_TWO[pair] ?? 0) | mark
  }
}

function pairOf(first: number, second: number): number {
  return ((first & 31) << 5) | (second & 31)
}

/** Whether a name that ends in these two characters could be one of a secret. */
const mayEndSensitiveKey = (first: number, second: number): boolean =>
  ((LAST_TWO[pairOf(first, second)] ?? 0) & SENSITIVE) !== 0

/**
 * Whether what is assigned to a name that ends in these two characters has to be looked at: it could be a secret's,
 * or say only that it is a value, or before `=` its type, and the name stands before it.
 */
export const mayEndKey = (first: number, second: number, isEquals: boolean): boolean =>
  ((LAST_TWO[pairOf(first, second)] ?? 0) & (isEquals ? SENSITIVE | VALUE | TYPE : SENSITIVE | VALUE)) !== 0

/** What the value of a name is, or undefined. `before` is the character in front of the name. */
export function sensitiveKey(key: string, before: number): RedactedKind | undefined {
  if (!mayEndSensitiveKey(key.charCodeAt(key.length - 2), key.charCodeAt(key.length - 1))) return undefined
  const lower = key.toLowerCase()
  if (lower === 'sig') return before === 63 || before === 38 || before === 59 ? 'azure-secret' : undefined
  if (/(?:^|[_-])(?:pass|pw)$/.test(lower) && lower.length > 4) return 'password'
  const bare = lower.replace(/[_.-]/g, '')
  return ENDINGS.find(([ending]) => bare.endsWith(ending))?.[1]
}
