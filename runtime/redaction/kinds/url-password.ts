import type { Detector, Match } from '../detector.ts'
import { MAX_AHEAD } from '../detector.ts'
import { isMarker } from '../marker.ts'
import { CharClass, type TextReader } from '../text-reader.ts'
import { isPlaceholder } from './values.ts'

const SCHEME = new CharClass(/[A-Za-z0-9+.-]/)
const USERINFO = new CharClass(/[^\s"'`<>\\/?#\x00-\x1f]/, true)
/** Database passwords are often not URL-encoded. */
const LOOSE_USERINFO = new CharClass(/[^\s"'`<>\\\x00-\x1f]/, true)
const WEB = /^(?:https?|wss?|file)$/i
const AT = 64

/** The password in `scheme://user:password@host`, or a long token in place of the user. */
export const urlPassword: Detector = {
  triggers: [[/:/, /\//, /\//]],
  detect: (reader, at) => {
    if (!reader.has('://', at) || !SCHEME.has(reader.at(at - 1))) return undefined
    const isWeb = WEB.test(schemeBefore(reader, at))
    const from = at + 3
    const end = reader.spanEnd(from, isWeb ? USERINFO : LOOSE_USERINFO, MAX_AHEAD - 8)
    const info = reader.slice(from, end)
    const host = info.lastIndexOf('@')
    return host < 0 || reader.at(from + host) !== AT
      ? undefined
      : passwordIn(info.slice(0, host), from, isWeb)
  },
}

function passwordIn(userinfo: string, from: number, isWeb: boolean): Match | undefined {
  const colon = userinfo.indexOf(':')
  const password = colon < 0 ? userinfo : userinfo.slice(colon + 1)
  const start = colon < 0 ? from : from + colon + 1
  if (password === '' || isMarker(password) || isPlaceholder(password)) return undefined
  if (colon < 0 && !(password.length >= 20 && /\d/.test(password))) return undefined
  // `scheme://host:5432/path@…` contains a port, not a password.
  if (!isWeb && /^\d{1,5}[/?#]/.test(password)) return undefined
  return { start, end: from + userinfo.length, kind: 'url-password' }
}

function schemeBefore(reader: TextReader, at: number): string {
  let start = at
  while (at - start < 24 && SCHEME.has(reader.at(start - 1))) start--
  return reader.slice(start, at)
}
