import type { Detector, Match } from '../detector.ts'
import type { TextReader } from '../text-reader.ts'
import { endOfToken, parseFormats, type TokenFormat } from './token-format.ts'
import { startsToken } from './token-start.ts'

interface InnerToken {
  readonly before: RegExp
  readonly mark: TokenFormat
}

/**
 * Tokens that are recognised by a mark in their middle or at their end: the text before the mark, then the
 * format from the mark on.
 */
const TOKENS: readonly InnerToken[] = (
  [
    [/[A-Za-z0-9]{14}$/, '.atlasv1.{t:60+}'],
    [/[A-Za-z0-9]{6}_[A-Za-z0-9]{29}$/, '_mmk'],
    [/[0-9a-f]{32}$/, '-us{d:1-2}'],
    [/\d{15,16}$/, '|{s:27-40}'],
    [/\d{8,16}$/, ':A{s:34}'],
  ] as const
).flatMap(([before, written]) => parseFormats(written).map((mark) => ({ before, mark })))

/** Longer than any text before a mark. */
const LONGEST_BEFORE = 40

const first = ({ mark }: InnerToken) => mark.prefix.charCodeAt(0)
const BY_FIRST = Map.groupBy(TOKENS, first)

export const innerTokens: Detector = {
  triggers: [
    [/\./, /a/, /t/],
    [/_/, /m/, /m/],
    [/-/, /u/, /s/],
    [/\|/, /[A-Za-z0-9_-]/],
    [/:/, /A/],
  ],
  detect: (reader, at): Match | undefined => {
    for (const token of BY_FIRST.get(reader.at(at)) ?? []) {
      const match = matchOf(reader, at, token)
      if (match) return match
    }
    return undefined
  },
}

function matchOf(reader: TextReader, at: number, { before, mark }: InnerToken): Match | undefined {
  if (!reader.has(mark.prefix, at)) return undefined
  const head = before.exec(reader.slice(Math.max(0, at - LONGEST_BEFORE), at))?.[0]
  if (head === undefined || !startsToken(reader, at - head.length)) return undefined
  const token = endOfToken(reader, at, mark)
  return token && { start: at - head.length, kind: 'service-token', ...token }
}
