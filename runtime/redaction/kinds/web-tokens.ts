import type { Detector } from '../detector.ts'
import { MAX_AHEAD } from '../detector.ts'
import { CharClass, type TextReader } from '../text-reader.ts'
import { startsToken } from './token-start.ts'

const BASE64URL = new CharClass(/[A-Za-z0-9_-]/)
const JWT_REST = new CharClass(/[A-Za-z0-9_.-]/)
const TOKEN68 = new CharClass(/[A-Za-z0-9._~+/=-]/)
const BASE64 = new CharClass(/[A-Za-z0-9+/=_-]/)
const BLANK = new CharClass(/[ \t]/)
const ENTRA = new CharClass(/[A-Za-z0-9_.~-]/)

/** A JSON Web Token: three parts; the first two are JSON objects in base64url. */
export const jwt: Detector = {
  triggers: [[/e/, /y/, /J/]],
  detect: (reader, at) => {
    if (!reader.has('eyJ', at) || !startsToken(reader, at)) return undefined
    const header = reader.spanEnd(at, BASE64URL, MAX_AHEAD - 32)
    if (header - at < 12 || reader.at(header) !== 46) return undefined
    const payload = reader.spanEnd(header + 1, BASE64URL, 16)
    return payload - header - 1 < 8 ? undefined : { start: at, end: payload, kind: 'jwt', rest: JWT_REST }
  },
}

/** `Bearer <token>`. A token is long or contains digits; other words are ignored. */
export const bearer: Detector = {
  triggers: [[/[Bb]/, /[Ee]/, /[Aa]/]],
  detect: (reader, at) => {
    const from = schemeEnd(reader, 'bearer', at)
    if (from === undefined) return undefined
    const end = reader.spanEnd(from, TOKEN68, MAX_AHEAD - 16)
    const length = end - from
    if (length < 8 || (length < 24 && !/\d/.test(reader.slice(from, end)))) return undefined
    return { start: from, end, kind: 'bearer', rest: TOKEN68 }
  },
}

/** `Basic <base64 of user:password>`. Ignored if it does not decode to a pair. */
export const basic: Detector = {
  triggers: [[/[Bb]/, /[Aa]/, /[Ss]/]],
  detect: (reader, at) => {
    const from = schemeEnd(reader, 'basic', at)
    if (from === undefined) return undefined
    const end = reader.spanEnd(from, BASE64, MAX_AHEAD - 16)
    if (end - from < 6) return undefined
    const pair = Buffer.from(reader.slice(from, end), 'base64').toString('latin1')
    return /^[\x20-\x7e\x80-\xff]*:/.test(pair)
      ? { start: from, end, kind: 'basic', rest: BASE64 }
      : undefined
  },
}

/** Client secrets of Entra ID: three characters, a digit, `Q~`, and 31 to 34 more. */
export const entraSecret: Detector = {
  triggers: [[/Q/, /~/]],
  detect: (reader, at) => {
    const start = at - 4
    const isDigit = reader.at(at - 1) >= 48 && reader.at(at - 1) <= 57
    if (!isDigit || ![1, 2, 3].every((i) => ENTRA.has(reader.at(at - 1 - i)))) return undefined
    const end = reader.spanEnd(at + 2, ENTRA, MAX_AHEAD - 16)
    return end - at - 2 < 30 ? undefined : { start, end, kind: 'azure-secret', rest: ENTRA }
  },
}

/** Returns the index of the token after an authentication scheme. */
function schemeEnd(reader: TextReader, scheme: string, at: number): number | undefined {
  if (!reader.hasAnyCase(scheme, at) || !startsToken(reader, at)) return undefined
  const after = at + scheme.length
  if (reader.has('%20', after)) return after + 3
  const from = reader.spanEnd(after, BLANK, 8)
  return from > after ? from : undefined
}
