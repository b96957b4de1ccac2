import type { RedactedKind } from '../marker.ts'

/** Endings of names, without separators, and the kind of the value. Longer endings come first. */
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
  // Bundler names the credentials for a gem server after the server.
  ['contribsyscom', 'password'],
]

/** The kinds of names that are possible, by the last two letters. */
const SENSITIVE = 1
const VALUE = 2
const TYPE = 4

/** Indexed by the low five bits of the last two letters. Rejects nearly every name without further checks. */
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

/** Returns whether a name that ends in these two characters may name a secret. */
const mayEndSensitiveKey = (first: number, second: number): boolean =>
  ((LAST_TWO[pairOf(first, second)] ?? 0) & SENSITIVE) !== 0

/**
 * Returns whether the name before an assignment must be checked, by its last two characters: it may name a
 * secret, be the word `value`, or, before `=`, be a type with the name before it.
 */
export const mayEndKey = (first: number, second: number, isEquals: boolean): boolean =>
  ((LAST_TWO[pairOf(first, second)] ?? 0) & (isEquals ? SENSITIVE | VALUE | TYPE : SENSITIVE | VALUE)) !== 0

/** Returns the kind of value that a name stands for, or undefined. `before` is the character before the name. */
export function sensitiveKey(key: string, before: number): RedactedKind | undefined {
  if (!mayEndSensitiveKey(key.charCodeAt(key.length - 2), key.charCodeAt(key.length - 1))) return undefined
  const lower = key.toLowerCase()
  if (lower === 'sig') return before === 63 || before === 38 || before === 59 ? 'azure-secret' : undefined
  if (/(?:^|[_-])(?:pass|pw)$/.test(lower) && lower.length > 4) return 'password'
  const bare = lower.replace(/[_.-]/g, '')
  return ENDINGS.find(([ending]) => bare.endsWith(ending))?.[1]
}
