import type { Detector } from '../detector.ts'
import { isMarker } from '../marker.ts'
import { CharClass } from '../text-reader.ts'
import { isPlaceholder } from './values.ts'

const BETWEEN = new CharClass(/[ \t="'\\]/)
const USER = new CharClass(/[^\s"'`:;|<>\\\x00-\x1f]/, true)
const PASSWORD = new CharClass(/[^\s"'`;|<>\\\x00-\x1f]/, true)
const BLANK = new CharClass(/\s/)
const COLON = 58
/** Maximum distance between the command's name and the option. */
const COMMAND_WITHIN = 100
const SHORTEST = 3

/** `curl -u user:password`. Other commands use `-u` for a user and group. */
export const curlUser: Detector = {
  triggers: [
    [/-/, /u/, /[ \t="'\\]/],
    [/-/, /-/, /u/],
  ],
  detect: (reader, at) => {
    const option = ['--user', '-u'].find((written) => reader.has(written, at))
    if (option === undefined || !BLANK.has(reader.at(at - 1))) return undefined
    if (!/\bcurl\b/.test(reader.slice(Math.max(0, at - COMMAND_WITHIN), at))) return undefined
    const from = at + option.length
    const user = reader.spanEnd(from, BETWEEN, 8)
    const colon = reader.spanEnd(user, USER, 128)
    if (user === from || reader.at(colon) !== COLON) return undefined
    const end = reader.spanEnd(colon + 1, PASSWORD, 256)
    const password = reader.slice(colon + 1, end)
    if (password.length < SHORTEST || isMarker(password) || isPlaceholder(password)) return undefined
    return { start: colon + 1, end, kind: 'password', rest: PASSWORD }
  },
}
