import type { Detector } from '../detector.ts'
import type { RedactedKind } from '../marker.ts'
import { CharClass, type TextReader } from '../text-reader.ts'
import { type AssignedKey, keyEndingAt } from './assigned-key.ts'
import { isNoSecret } from './assigned-value.ts'
import { mayEndKey, sensitiveKey } from './sensitive-keys.ts'
import { looksRandom } from './values.ts'

const BETWEEN = new CharClass(/[\s"'`,\\]/)
const BESIDE_OPERATOR = new CharClass(/[ \t"'`\\]/)
const OPERATOR = new CharClass(/[:=]/)
const LONGEST_BETWEEN = 24
const LONGEST_BESIDE = 6

/**
 * `- name: DB_PASSWORD` followed by `value: …`, as in a container's environment, and `key="…" value="…"` in
 * XML.
 */
export function kindOfNamedValue(reader: TextReader, { name, start }: AssignedKey): RedactedKind | undefined {
  if (name.toLowerCase() !== 'value') return undefined
  const named = keyEndingAt(reader, reader.spanStart(start, BETWEEN, LONGEST_BETWEEN))
  const operator = reader.spanStart(named.start, BESIDE_OPERATOR, LONGEST_BESIDE)
  if (named.name === '' || !OPERATOR.has(reader.at(operator - 1))) return undefined
  const label = keyEndingAt(reader, reader.spanStart(operator - 1, BESIDE_OPERATOR, LONGEST_BESIDE))
  return /^(?:name|key)$/i.test(label.name) ? sensitiveKey(named.name, 0) : undefined
}

const QUOTE = new CharClass(/["'`]/)
const BLANK = new CharClass(/[ \t]/)
const VALUE = new CharClass(/[^\s"'`\\\x00-\x1f]/, true)
const LONGEST_VALUE = 256

/** `set("API_TOKEN", "…")`: the argument after the name of a secret, if it looks random. */
export const namedArguments: Detector = {
  triggers: [[/["'`]/, /,/, /[ \t"'`]/]],
  detect: (reader, at) => {
    if (!mayEndKey(reader.at(at - 2), reader.at(at - 1), false)) return undefined
    const key = keyEndingAt(reader, at)
    if (key.name === '' || reader.at(key.start - 1) !== reader.at(at)) return undefined
    const kind = sensitiveKey(key.name, reader.at(at))
    const quote = kind === undefined ? at : reader.spanEnd(at + 2, BLANK, 8)
    if (kind === undefined || !QUOTE.has(reader.at(quote))) return undefined
    const end = reader.spanEnd(quote + 1, VALUE, LONGEST_VALUE)
    const value = reader.slice(quote + 1, end)
    if (value.length < 8 || isNoSecret(value) || !looksRandom(value, 1)) return undefined
    return { start: quote + 1, end, kind, rest: VALUE }
  },
}
