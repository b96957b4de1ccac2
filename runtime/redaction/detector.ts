import type { RedactedKind } from './marker.ts'
import type { CharClass, TextReader } from './text-reader.ts'

/** Most characters that a detector looks at behind its trigger; what a value has more is swallowed by its class. */
export const MAX_AHEAD = 512
/** Most characters before its trigger that a detector looks at or redacts. */
export const MAX_BEHIND = 128

/** A stretch of text to be replaced by a marker. */
export interface Match {
  readonly start: number
  readonly end: number
  readonly kind: RedactedKind
  /** What follows and is of this class belongs to it, however long it is. */
  readonly rest?: CharClass
  /** What follows up to this mark belongs to it. */
  readonly until?: 'pem-end'
}

/**
 * Looks for one kind of secret where two characters stand that it begins with or turns on. It reads the text only
 * through the reader, at most `MAX_AHEAD` forward and `MAX_BEHIND` back.
 */
export interface Detector {
  /** Classes: the trigger's own character, the next one, and the one behind that where not any will do. */
  readonly triggers: readonly (readonly [first: RegExp, second: RegExp, third?: RegExp])[]
  detect(reader: TextReader, at: number): Match | undefined
}

export const ANY = /[\s\S]/
