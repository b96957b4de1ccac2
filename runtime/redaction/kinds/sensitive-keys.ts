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

/** Last letters of the endings: nearly every name is refused by them alone. */
const LAST = new Set(ENDINGS.map(([ending]) => ending.at(-1)).concat(['g', 's']))

/** What the value of a name is, or undefined. `before` is the character in front of the name. */
export function sensitiveKey(key: string, before: number): RedactedKind | undefined {
  const last = key.at(-1)?.toLowerCase()
  if (last === undefined || !LAST.has(last)) return undefined
  const lower = key.toLowerCase()
  if (lower === 'sig') return before === 63 || before === 38 || before === 59 ? 'azure-secret' : undefined
  if (/(?:^|[_-])(?:pass|pw)$/.test(lower) && lower.length > 4) return 'password'
  const bare = lower.replace(/[_.-]/g, '')
  return ENDINGS.find(([ending]) => bare.endsWith(ending))?.[1]
}
