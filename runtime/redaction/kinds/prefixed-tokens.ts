import type { Detector, Match } from '../detector.ts'
import type { RedactedKind } from '../marker.ts'
import type { TextReader } from '../text-reader.ts'
import { endOfToken, parseFormats, type TokenFormat } from './token-format.ts'
import { startsToken } from './token-start.ts'
import { looksRandom } from './values.ts'

type Formats = Partial<Record<RedactedKind, string>>

/**
 * Tokens whose first characters name the issuer, in the format of `token-format.ts`. If one format is a prefix
 * of another, the longer one comes first. Lengths are the issuer's, or the shortest one if there are several. A
 * run has no upper bound if the prefix alone distinguishes the token from ordinary text.
 */
const TOKENS: Formats = {
  'aws-key': `(AKIA|ASIA|ABIA|ACCA){u:16+} A3T{u:17} ABSK{b:100+} bedrock-api-key-{b:20+}`,
  'github-token': `ghs_{d:1-20}_{s:8+}.{s:8+}.{s:8+} (ghp|gho|ghu|ghs|ghr)_{w:20+} github_pat_{w:20+}`,
  'gitlab-token': `glpat-{s:20+}.{a:9} glrt-t{d:1}_{s:20+}.{a:9} glcbt-{a:1-5}_{s:16+}
    (glpat|gldt|glrt|glffct|glft|glimt|glagent|gloas|glptt|glsoat)-{s:16+} GR1348941{s:16+}
    _gitlab_session={a:32+}`,
  'google-key': `AIza{s:30+} ya29.{t:20+} GOCSPX-{s:20+}`,
  'slack-token': `xoxe.(xoxb|xoxp)-{s:10+} xox(a|b|c|d|e|o|p|r|s)-{t:10+} xapp-{t:10+}
    hooks.slack.com/(services|workflows|triggers)/{p:16+}`,
  'stripe-key': `(sk|rk)_(live|test|prod)_{w:10+} whsec_{b:16+}`,
  'npm-token': `npm_{w:30+}`,
  'pypi-token': `pypi-{s:40+}`,
  'ai-key': `hf_{a:30+} api_org_{a:30+} gsk_{a:40+} pplx-{a:40+} xai-{a:60+} r8_{a:37} nvapi-{s:40+}`,
  jwt: `ZXlK{b:60+}`,
  'service-token': `awk_{s:40+}
    A3-{u:6}-{t:28+} ops_eyJ{b:100+} p8e-{a:32} AGE-SECRET-KEY-1{u:58+}
    pat{a:14}.{x:64} LTAI{a:20} AKCp{a:69} cmVmd{a:59} (ATATT3|ATCTT3){t:60+}
    (sc|ext|scauth|authress)_{a:5-30}.{a:4-6}.acc(_|-){s:10-32}.{p:30+}
    CLOJARS_{a:60} v1.0-{x:24}-{x:146} (cfk|cfut|cfat)_{a:48} dapi{x:32+} dnkey-{t:26}-{t:52}
    (doo|dop|dor)_v1_{x:64} dp.(pt|st|ct|sa|scim|audit).{t:40+} sl.{t:130+}
    duffel_(test|live)_{t:43} dt0(c01|s01|s16).{a:24}.{a:64} (EZAK|EZTK){a:54} EAA{a:100+}
    FLWSECK_TEST-{a:12+} FLWPUBK_TEST-{a:32} fo1_{s:43} (fm1a|fm1r|fm2)_{b:100+} fio-u-{t:64}
    glc_{b:32+} glsa_{a:32}_{x:8} eyJrIjoi{b:70+} (pat|sat).{s:22}.{a:24}.{a:20} HRKU-AA{s:58}
    pat-(na|eu|ap)(1|2)-{x:8}-{x:4}-{x:4}-{x:4}-{x:12} ico-{a:32} s-s4t2(ud|af)-{x:64}
    lin_(api|oauth)_{w:32+} (pk|sk|tk).{s:40-100}.{s:22} (NRJS|NRII|NRAK|NRAA)-{s:19+} ntn_{a:40+}
    rdme_{a:70} rubygems_{x:48} tk-us-{s:48} SG.{s:16-64}.{s:16+} SG.{t:40+} (xkeysib|xsmtpsib)-{x:64}-{a:16}
    sntrys_{p:60+} sntryu_{x:64} sm_(aat|pat|sat)_{a:16} shippo_(live|test)_{x:40}
    (shpat|shpca|shppa|shpss)_{a:32+} sgp_{w:40+} sq0(atp|csp|idp)-{s:22+} sq(u|p|a)_{a:40}
    tfp_{t:40+} (hvs|hvb|hvr).{s:60+} t1.{s:10+}(|=|==).{s:80+} PMAK-{x:24}-{x:34} pnu_{a:36} pul-{x:40}
    pscale_(tkn|oauth|pw)_{t:32+} sha256~{s:43} tskey-{a:2-20}-{w:8+}-{w:16+}
    (vcp|vci|vca|vcr|vck)_{a:20+} figd_{s:40+} dckr_(pat|oat)_{s:20+}
    access-(sandbox|development|production)-{x:8}-{x:4}-{x:4}-{x:4}-{x:12}
    discord(app|).com/api/webhooks/{d:17-20}/{s:60+} webhook.office.com/webhookb2/{p:60+}`,
}

/** Formats whose prefix also occurs in code and prose. The rest must look random. */
const RANDOM_TOKENS: Formats = {
  'service-token': `4b1d{a:38} s.{a:24} EAAA{s:22-60} AQVN{s:35-38} API-{u:26} SK{x:32}`,
}

/** Words joined by dashes can start with this prefix, so the key must contain a digit. */
const DIGIT_TOKENS: Formats = { 'ai-key': 'sk-{s:20+}' }

/** Characters of source code, logs and lock files, most frequent first. All others are rarer. */
const FREQUENT = 'etrosinaclp.udmg0hfby-x1v2kw_'
const commonness = (character = ''): number => {
  const rank = FREQUENT.indexOf(character)
  return rank < 0 ? 2 : FREQUENT.length + 4 - rank
}

/** Text before a trigger is held back only while it consists of these characters. */
const HELD = /^[A-Za-z0-9._-]*/

/**
 * Returns the index of the rarest pair of characters in a prefix, so that fewer positions in a text match the
 * trigger.
 */
function rarestPair(prefix: string): number {
  const last = Math.min(prefix.length - 2, HELD.exec(prefix)?.[0].length ?? 0)
  const costs = Array.from(
    { length: last + 1 },
    (_, at) => commonness(prefix[at]) * commonness(prefix[at + 1]),
  )
  return costs.indexOf(Math.min(...costs))
}

interface Candidate {
  readonly format: TokenFormat
  readonly kind: RedactedKind
  readonly leastDigits: number
  /** Index of the trigger's pair in the prefix. */
  readonly offset: number
}

const candidatesOf = (formats: Formats, leastDigits: number): Candidate[] =>
  Object.entries(formats).flatMap(([kind, written]) =>
    parseFormats(written).map((format) => ({
      format,
      kind: kind as RedactedKind,
      leastDigits,
      offset: rarestPair(format.prefix),
    })),
  )

const CANDIDATES: readonly Candidate[] = [
  ...candidatesOf(TOKENS, 0),
  ...candidatesOf(DIGIT_TOKENS, 1),
  ...candidatesOf(RANDOM_TOKENS, 2),
]

const pairOf = ({ format, offset }: Candidate): string => format.prefix.slice(offset, offset + 2)
const BY_PAIR = Map.groupBy(CANDIDATES, pairOf)
/** The candidates by the codes of the pair. Used at every position that matches a trigger. */
const BY_CODES: (readonly Candidate[] | undefined)[] = Array.from({ length: 128 * 128 })
for (const [pair, members] of BY_PAIR) BY_CODES[codesOf(pair.charCodeAt(0), pair.charCodeAt(1))] = members

function codesOf(first: number, second: number): number {
  return (first << 7) | second
}

const exactly = (character = '') => new RegExp(`[${character === '-' ? '\\-' : character}]`)

const triggerOf = ({ format: { prefix }, offset }: Candidate) =>
  [
    exactly(prefix[offset]),
    exactly(prefix[offset + 1]),
    offset + 2 < prefix.length ? exactly(prefix[offset + 2]) : /[A-Za-z0-9_.=/+-]/,
  ] as const

export const prefixedTokens: Detector = {
  triggers: CANDIDATES.map(triggerOf),
  detect: (reader, at): Match | undefined => {
    const candidates = BY_CODES[codesOf(reader.at(at), reader.at(at + 1))]
    if (candidates === undefined) return undefined
    for (const candidate of candidates) {
      const match = matchOf(reader, at - candidate.offset, candidate)
      if (match) return match
    }
    return undefined
  },
}

function matchOf(reader: TextReader, start: number, candidate: Candidate): Match | undefined {
  const { format, kind, leastDigits } = candidate
  if (!reader.has(format.prefix, start) || !startsToken(reader, start)) return undefined
  const token = endOfToken(reader, start, format)
  if (!token) return undefined
  const rest = reader.slice(start + format.prefix.length, token.end)
  if (leastDigits > 0 && !looksRandom(rest, leastDigits)) return undefined
  return { start, kind, ...token }
}
