import type { Detector, Match } from '../detector.ts'
import { MAX_AHEAD } from '../detector.ts'
import type { RedactedKind } from '../marker.ts'
import { CharClass, type TextReader } from '../text-reader.ts'

const WORD = new CharClass(/[A-Za-z0-9_]/)
const WORD_DASH = new CharClass(/[A-Za-z0-9_-]/)
const WORD_DASH_DOT = new CharClass(/[A-Za-z0-9_.-]/)
const UPPER = new CharClass(/[A-Z0-9]/)
const PATH = new CharClass(/[A-Za-z0-9/]/)

const exactly = (char = '') => new RegExp(`[${char}]`)

/** Tokens that name their issuer in their first letters: prefix, kind, class of the rest, least length of it. */
const TOKENS: readonly (readonly [string, RedactedKind, CharClass, number])[] = [
  ...['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_', 'github_pat_'].map(
    (prefix) => [prefix, 'github-token', WORD, 20] as const,
  ),
  ['glpat-', 'gitlab-token', WORD_DASH, 16],
  ...['AKIA', 'ASIA', 'ABIA', 'ACCA'].map((prefix) => [prefix, 'aws-key', UPPER, 16] as const),
  ['AIza', 'google-key', WORD_DASH, 30],
  ['ya29.', 'google-key', WORD_DASH_DOT, 20],
  ['GOCSPX-', 'google-key', WORD_DASH, 20],
  ...['xoxa-', 'xoxb-', 'xoxe-', 'xoxo-', 'xoxp-', 'xoxr-', 'xoxs-', 'xapp-'].map(
    (prefix) => [prefix, 'slack-token', WORD_DASH_DOT, 10] as const,
  ),
  ['hooks.slack.com/services/', 'slack-token', PATH, 16],
  ...['sk_live_', 'sk_test_', 'rk_live_', 'rk_test_', 'whsec_'].map(
    (prefix) => [prefix, 'stripe-key', WORD, 10] as const,
  ),
  ['npm_', 'npm-token', WORD, 30],
  ['pypi-', 'pypi-token', WORD_DASH, 40],
  ['sk-', 'ai-key', WORD_DASH, 20],
  ['hf_', 'ai-key', WORD, 30],
  ['SG.', 'service-token', WORD_DASH_DOT, 40],
  ['dckr_pat_', 'service-token', WORD_DASH, 20],
]

export const prefixedTokens: readonly Detector[] = TOKENS.map(([prefix, kind, members, least]) => ({
  triggers: [[exactly(prefix[0]), exactly(prefix[1])]],
  detect: (reader, at): Match | undefined => {
    if (!reader.has(prefix, at) || WORD.has(reader.at(at - 1))) return undefined
    const from = at + prefix.length
    const end = reader.spanEnd(from, members, MAX_AHEAD)
    if (end - from < least || (kind === 'ai-key' && !hasDigit(reader, from, end))) return undefined
    return { start: at, end, kind, rest: members }
  },
}))

/** Words joined by dashes begin with `sk-` too; keys have digits in them. */
function hasDigit(reader: TextReader, from: number, to: number): boolean {
  for (let i = from; i < to; i++) if (reader.at(i) >= 48 && reader.at(i) <= 57) return true
  return false
}
