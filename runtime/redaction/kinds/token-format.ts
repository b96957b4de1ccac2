import { MAX_AHEAD } from '../detector.ts'
import { CharClass, type TextReader } from '../text-reader.ts'

/** Character classes, by the letter that formats use. */
const ALPHABETS = {
  d: new CharClass(/[0-9]/),
  x: new CharClass(/[0-9A-Fa-f]/),
  u: new CharClass(/[A-Z0-9]/),
  a: new CharClass(/[A-Za-z0-9]/),
  w: new CharClass(/[A-Za-z0-9_]/),
  s: new CharClass(/[A-Za-z0-9_-]/),
  t: new CharClass(/[A-Za-z0-9_.=-]/),
  b: new CharClass(/[A-Za-z0-9+/=]/),
  p: new CharClass(/[A-Za-z0-9+/=_.@%-]/),
} as const

const WORD = ALPHABETS.w

interface Run {
  readonly members: CharClass
  readonly least: number
  /** Undefined if the run has no upper bound. */
  readonly most: number | undefined
  /** Maximum number of characters that are read if the run has no upper bound. */
  readonly seen: number
}

type Part = string | Run

/**
 * The format of a token, written as `pre_{a:20}.{x:8-16}-{s:32+}`: literal text, and runs of a character class
 * with an exact length, a range or a minimum length. `(a|b)` expands to one format per alternative.
 */
export interface TokenFormat {
  readonly prefix: string
  readonly parts: readonly Part[]
}

export interface TokenEnd {
  readonly end: number
  /** Set if the last run has no upper bound: following characters of this class also belong to the token. */
  readonly rest?: CharClass
}

/** Parses formats separated by whitespace. */
export const parseFormats = (written: string): TokenFormat[] =>
  written.trim().split(/\s+/).flatMap(alternatives).map(parseFormat)

function alternatives(written: string): string[] {
  const [whole, options = ''] = /\(([^)]*)\)/.exec(written) ?? []
  if (whole === undefined) return [written]
  return options.split('|').flatMap((option) => alternatives(written.replace(whole, option)))
}

function parseFormat(written: string): TokenFormat {
  const [prefix = '', ...parts] = written.split(/(\{[a-z]:[^}]*\})/)
  const runs = parts.filter((part) => part !== '')
  return { prefix, parts: runs.map((part, index) => parsePart(part, index === runs.length - 1)) }
}

function parsePart(written: string, isLast: boolean): Part {
  const [, letter = '', least = '', open, most] = /^\{([a-z]):(\d+)(?:(\+)|-(\d+))?\}$/.exec(written) ?? []
  if (letter === '') return written
  if (!isAlphabet(letter)) throw new Error(`No alphabet is called ${letter}: ${written}`)
  return {
    members: ALPHABETS[letter],
    least: Number(least),
    most: open === undefined ? Number(most ?? least) : undefined,
    seen: isLast ? Math.max(Number(least), LEAST_SEEN) : LONGEST_INNER,
  }
}

const isAlphabet = (letter: string): letter is keyof typeof ALPHABETS => letter in ALPHABETS

/** Maximum length of a run that is not the last part. */
const LONGEST_INNER = MAX_AHEAD - 160
/** Number of characters of an unbounded run that callers can inspect. */
const LEAST_SEEN = 48

/** Returns the end of a token that begins at `at`. The caller has already compared the prefix. */
export function endOfToken(
  reader: TextReader,
  at: number,
  { prefix, parts }: TokenFormat,
): TokenEnd | undefined {
  let end: number | undefined = at + prefix.length
  for (const part of parts) {
    end = endOfPart(reader, end, part)
    if (end === undefined) return undefined
  }
  const last = parts.at(-1)
  if (typeof last === 'object' && last.most === undefined) return { end, rest: last.members }
  return WORD.has(reader.at(end)) ? undefined : { end }
}

function endOfPart(reader: TextReader, from: number, part: Part): number | undefined {
  if (typeof part === 'string') return reader.has(part, from) ? from + part.length : undefined
  const end = reader.spanEnd(from, part.members, part.most ?? part.seen)
  return end - from < part.least ? undefined : end
}
