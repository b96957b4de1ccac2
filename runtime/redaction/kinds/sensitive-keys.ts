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
]

/** The last two letters of every ending, by their five low bits: nearly every name is refused by them alone. */
const LAST_TWO = new Uint8Array(32 * 32)
for (const ending of [...ENDINGS.map(([text]) => text), 'sig', 'pass', 'pw']) {
  LAST_TWO[pairOf(ending.charCodeAt(ending.length - 2), ending.charCodeAt(ending.length - 1))] = 1
}

function pairOf(first: number, second: number): number {
  return ((first & 31) << 5) | (second & 31)
}

/** Whether a name that ends in these two characters could be one of a secret. */
export const mayEndSensitiveKey = (first: number, second: number): boolean =>
  LAST_TWO[pairOf(first, second)] === 1

/** What the value of a name is, or undefined. `before` is the character in front of the name. */
export function sensitiveKey(key: string, before: number): RedactedKind | undefined {
  if (!mayEndSensitiveKey(key.charCodeAt(key.length - 2), key.charCodeAt(key.length - 1))) return undefined
  const lower = key.toLowerCase()
  if (lower === 'sig') return before === 63 || before === 38 || before === 59 ? 'azure-secret' : undefined
  if (/(?:^|[_-])(?:pass|pw)$/.test(lower) && lower.length > 4) return 'password'
  const bare = lower.replace(/[_.-]/g, '')
  return ENDINGS.find(([ending]) => bare.endsWith(ending))?.[1]
}
