import { matchesSegments, segmentsOf } from '../../policies/agent/egress/path-pattern.ts'

/**
 * A path in each way in which a server may read it: as it is spelled, and decoded. Each reading is a list of segments;
 * an empty last segment stands for a slash at the end.
 */
export interface RequestPath {
  /** As it was sent, without its query. */
  readonly spelling: string
  readonly readings: readonly (readonly string[])[]
  /** Has `%2f`, which some servers read as a separator. */
  readonly hasEncodedSlash: boolean
}

export type ParsedPath =
  | { readonly ok: true; readonly path: RequestPath }
  | { readonly ok: false; readonly reason: string }

/** RFC 3986, without `;`: some servers drop the rest of the segment. */
const SPELLING = /^\/(?:[A-Za-z0-9._~!$&'()*+,=:@/-]|%[0-9A-Fa-f]{2})*$/
const QUERY = /^[\x21\x22\x24-\x7e]*$/

/** Percent forms that servers treat in different ways: letters and digits, separators, controls, and `%` itself. */
const ESCAPES = /%([0-9A-Fa-f]{2})/g
const NEVER_ESCAPED = /[A-Za-z0-9._~\-\\;?#%\x00-\x1f\x7f]/

/** Separators and dots in other scripts, which some servers convert. */
const LOOKS_ALIKE = /[./\\;?#%]/
const OTHER_SLASHES = /[\u2044\u2215\u2216\u29f5\u29f8\u29f9\u00a5\u20a9]/
const INVISIBLE = /[\p{Cc}\p{Cf}]/u

const refused = (reason: string): ParsedPath => ({ ok: false, reason })

/** Parses the path of a request, with its query. Refuses what two programs may read as different paths. */
export function parsePath(text: string): ParsedPath {
  const end = text.indexOf('?')
  const spelled = end < 0 ? text : text.slice(0, end)
  if (end >= 0 && !QUERY.test(text.slice(end + 1)))
    return refused('the query has a character that must be percent-encoded')
  const fault = spellingFault(spelled)
  if (fault !== undefined) return refused(fault)
  const decoded = decode(spelled)
  if (decoded === undefined || isDisguised(decoded))
    return refused('the path has percent-encoded bytes that servers read in different ways')
  const readings = (decoded === spelled ? [spelled] : [spelled, decoded]).map(segmentsOf)
  const isPlain = readings.every(arePlain)
  if (!isPlain) return refused('the path has an empty segment, or one of dots only')
  return { ok: true, path: { spelling: spelled, readings, hasEncodedSlash: /%2f/i.test(spelled) } }
}

function spellingFault(spelled: string): string | undefined {
  if (!spelled.startsWith('/')) return 'the target must be a path'
  if (spelled.includes(';') || spelled.includes('\\')) return 'the path contains ; or \\'
  if (!SPELLING.test(spelled)) return 'the path has a character that must be percent-encoded'
  for (const [escaped, digits = ''] of spelled.matchAll(ESCAPES)) {
    const character = String.fromCharCode(Number.parseInt(digits, 16))
    if (NEVER_ESCAPED.test(character)) return `the path contains ${escaped}`
  }
  return undefined
}

/** Undefined if the bytes are not UTF-8, such as an overlong form of a slash. */
function decode(spelled: string): string | undefined {
  try {
    return decodeURIComponent(spelled)
  } catch {
    return undefined
  }
}

const isDisguised = (decoded: string): boolean =>
  INVISIBLE.test(decoded) ||
  OTHER_SLASHES.test(decoded) ||
  [...decoded].some((letter) => letter > '\x7f' && LOOKS_ALIKE.test(letter.normalize('NFKC')))

const arePlain = (segments: readonly string[]) =>
  segments.every(
    (segment, index) =>
      (segment !== '' || index === segments.length - 1) && !/^(?:\.|\+|\s|%20)+$/.test(segment),
  )

/** Whether a pattern matches every reading of a path. */
export const matchesPath = (pattern: string, { readings }: RequestPath): boolean =>
  readings.every((segments) => matchesSegments(pattern, segments))
