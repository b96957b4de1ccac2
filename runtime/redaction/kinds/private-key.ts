import type { Detector } from '../detector.ts'
import { CharClass } from '../text-reader.ts'

const LABEL = new CharClass(/[A-Z0-9 ]/)
const BASE64 = new CharClass(/[A-Za-z0-9+/=]/)
const LONGEST_LABEL = 48
/** Maximum distance between the first line and the key's body. Line numbers and escapes may come between. */
const BODY_WITHIN = 160
const BODY_RUN = 20

/**
 * A PEM private key; the whole block is redacted. A first line without a body, as in documentation, does not
 * match.
 */
export const privateKey: Detector = {
  triggers: [[/-/, /-/, /-/]],
  detect: (reader, at) => {
    if (!reader.has('-----BEGIN ', at)) return undefined
    const from = at + '-----BEGIN '.length
    const label = reader.spanEnd(from, LABEL, LONGEST_LABEL)
    if (!reader.slice(from, label).includes('PRIVATE KEY') || !reader.has('-----', label)) return undefined
    const body = label + 5
    for (let i = body; i < body + BODY_WITHIN; i++) {
      if (reader.at(i) < 0) return undefined
      if (reader.has('Proc-Type:', i) || reader.spanEnd(i, BASE64, BODY_RUN) - i === BODY_RUN) {
        return { start: at, end: body, kind: 'private-key', until: 'pem-end' }
      }
    }
    return undefined
  },
}
