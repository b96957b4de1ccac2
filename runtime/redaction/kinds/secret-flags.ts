import type { Detector } from '../detector.ts'
import { isMarker } from '../marker.ts'
import { CharClass } from '../text-reader.ts'
import { sensitiveKey } from './sensitive-keys.ts'
import { isKeyword, isPlaceholder } from './values.ts'

const NAME = new CharClass(/[A-Za-z0-9_-]/)
const BETWEEN = new CharClass(/[ \t"',\\]/)
const VALUE = new CharClass(/[^\s"'`;|<>\\\x00-\x1f]/, true)

/** `--password value`, also in a JSON list of arguments. */
export const secretFlags: Detector = {
  triggers: [[/-/, /-/, /[A-Za-z0-9_]/]],
  detect: (reader, at) => {
    if (NAME.has(reader.at(at - 1))) return undefined
    const nameEnd = reader.spanEnd(at + 2, NAME, 48)
    const name = reader.slice(at + 2, nameEnd)
    const kind = name.startsWith('-') ? undefined : sensitiveKey(name, 45)
    if (kind === undefined) return undefined
    const from = reader.spanEnd(nameEnd, BETWEEN, 16)
    if (from === nameEnd || reader.at(from) === 45) return undefined
    const end = reader.spanEnd(from, VALUE, 256)
    const value = reader.slice(from, end)
    if (value.length < 3 || isMarker(value) || isPlaceholder(value) || isKeyword(value)) return undefined
    return { start: from, end, kind, rest: VALUE }
  },
}
