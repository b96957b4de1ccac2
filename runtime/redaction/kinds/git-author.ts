import { MAX_BEHIND } from '../detector.ts'
import type { TextReader } from '../text-reader.ts'

const NAME = '[^<>\\n]{0,100}'

/** The text that git writes in a line before an author's address, without leading blanks. */
const BEFORE_ADDRESS = new RegExp(
  `^(?:${[
    // `git log`, `git show`, `git cat-file`
    `(?:Author|Commit|Committer|Tagger):[ \\t]+${NAME}`,
    `(?:author|committer|tagger) ${NAME}`,
    // trailers of a message
    `[A-Z][a-z]+(?:-[a-z]+)*-by: ${NAME}`,
    `Cc: ${NAME}`,
    // `git blame --porcelain`, `git blame -e`
    '(?:author|committer)-mail ',
    '\\^?[0-9a-f]{7,64} (?:[^(<>\\n]{1,80} )?\\(',
    // `git shortlog -se`
    `\\d{1,7}\\t${NAME}`,
  ].join('|')})<$`,
)

const ONLY_NAME = new RegExp(`^${NAME} <$`)

/** `git shortlog -e` prints the number of commits after the address. */
const COUNT = /^> \(\d{1,7}\):$/

/** The start of the line and the text after the address must both be readable. */
const REACH = MAX_BEHIND - 1
const COUNT_LENGTH = 14

/**
 * Returns whether the address between `start` and `end`, with its `@` at `at`, is where git prints an author,
 * as in `Author: Name <address>`. Only the address is exempt; the name is checked separately.
 */
export function isGitAuthor(reader: TextReader, at: number, { start, end }: Span): boolean {
  if (reader.at(start - 1) !== LESS || reader.at(end) !== GREATER) return false
  let from = start
  while (at - from < REACH && !isLineEnd(reader.at(from - 1))) from--
  if (!isLineEnd(reader.at(from - 1))) return false
  const before = reader.slice(from, start).replace(/^[ \t]+/, '')
  return BEFORE_ADDRESS.test(before) || (ONLY_NAME.test(before) && hasCount(reader, end))
}

interface Span {
  readonly start: number
  readonly end: number
}

function hasCount(reader: TextReader, end: number): boolean {
  let to = end
  while (to - end < COUNT_LENGTH && !isLineEnd(reader.at(to))) to++
  return COUNT.test(reader.slice(end, to))
}

const isLineEnd = (code: number): boolean => code === 10 || code === 13 || code === -1
const LESS = 60
const GREATER = 62
