import type { EgressRule } from '../../contracts/egress.ts'

/** The HTTP status of a refusal. @default 403 */
export const STATUS_OF_RULE: Readonly<Partial<Record<EgressRule, number>>> = {
  budget: 429,
  'malformed-request': 400,
  method: 405,
  'name-mismatch': 421,
  'too-many-connections': 429,
}

/** The sentence for the client as the value of a header, which may contain only ASCII. */
export const asHeader = (sentence: string): string => sentence.replaceAll(/[^\x20-\x7e]/g, '?')

export const PRIVATE_REMEDY =
  'A person can name the range of a private endpoint in "addresses" of its entry in the egress file.'
