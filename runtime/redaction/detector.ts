import type { RedactedKind } from './marker.ts'
import type { CharClass, TextReader } from './text-reader.ts'

/**
 * Maximum number of characters that a detector reads after its trigger. The rest of a longer value is removed
 * by its character class.
 */
export const MAX_AHEAD = 512
/** Maximum number of characters before its trigger that a detector reads or redacts. */
export const MAX_BEHIND = 128

/** A range of text to replace with a marker. */
export interface Match {
  readonly start: number
  readonly end: number
  readonly kind: RedactedKind
  /** Following characters of this class also belong to the match, without limit. */
  readonly rest?: CharClass
  /** The match extends to this end marker. */
  readonly until?: 'pem-end'
}

/**
 * Detects one kind of secret. It runs at every position where its trigger matches: two or three characters that
 * the secret starts with or contains. It reads text only through the reader, at most `MAX_AHEAD` characters
 * forward and `MAX_BEHIND` back.
 */
export interface Detector {
  /** Character classes of the trigger: the character at the position, the next one and, if given, the third. */
  readonly triggers: readonly (readonly [first: RegExp, second: RegExp, third?: RegExp])[]
  detect(reader: TextReader, at: number): Match | undefined
}

export const ANY = /[\s\S]/
