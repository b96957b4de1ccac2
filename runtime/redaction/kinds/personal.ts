import type { Detector, Match } from '../detector.ts'
import { CharClass, type TextReader } from '../text-reader.ts'
import { isGitAuthor } from './git-author.ts'

const LOCAL = new CharClass(/[A-Za-z0-9._%+'-]/, false)
const DOMAIN = new CharClass(/[A-Za-z0-9.-]/)
const LONGEST_LOCAL = 64
const LONGEST_DOMAIN = 253

/**
 * E-mail addresses. Excluded are `git@host` (a git server), `node@24` (a version), and authors in git's own
 * output lines, which are in the repository and needed for work on its history.
 */
export const email: Detector = {
  triggers: [[/@/, /[A-Za-z0-9]/]],
  detect: (reader, at) => {
    let start = at
    while (at - start < LONGEST_LOCAL && LOCAL.has(reader.at(start - 1))) start--
    const local = reader.slice(start, at).replace(/^[.%+'-]+/, '')
    if (local === '' || local === 'git') return undefined
    const span = reader.spanEnd(at + 1, DOMAIN, LONGEST_DOMAIN)
    const domain = /^(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}(?![A-Za-z0-9])/.exec(reader.slice(at + 1, span))?.[0]
    if (domain === undefined) return undefined
    const address = { start: at - local.length, end: at + 1 + domain.length }
    return isGitAuthor(reader, at, address) ? undefined : { ...address, kind: 'email' }
  },
}

const IPV4_CHARS = new CharClass(/[0-9.]/)
/** With one of these characters before or after them, the numbers are a version. */
const BEFORE_VERSION = new CharClass(/[A-Za-z0-9_.@^~+=-]/)
const AFTER_VERSION = new CharClass(/[A-Za-z0-9_+-]/)

/**
 * IPv4 addresses, but not versions. Addresses that identify no person are kept: loopback, unspecified, broadcast,
 * netmasks, and documentation ranges.
 */
export const ipv4: Detector = {
  triggers: [[/[0-9]/, /\./]],
  detect: (reader, at) => {
    let start = at
    while (at - start < 3 && IPV4_CHARS.has(reader.at(start - 1))) start--
    const end = reader.spanEnd(start, IPV4_CHARS, 16)
    const text = reader.slice(start, end).replace(/\.$/, '')
    const parts = text.split('.')
    if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256))
      return undefined
    const close = start + text.length
    if (isVersion(reader, start, close) || isNobodys(parts.map(Number))) return undefined
    return { start, end: close, kind: 'ipv4' }
  },
}

function isVersion(reader: TextReader, start: number, end: number): boolean {
  const before = reader.at(start - 1)
  // `key=1.2.3.4` is an address, `pkg==1.2.3.4` is a version.
  if (before === 61)
    return reader.at(start - 2) === 61 || /[<>~!]/.test(reader.slice(Math.max(0, start - 2), start - 1))
  if (BEFORE_VERSION.has(before) || AFTER_VERSION.has(reader.at(end))) return true
  if (before === 47 && reader.at(start - 2) !== 47) return true
  return /version["')(:= ]{1,4}$/i.test(reader.slice(Math.max(0, start - 16), start))
}

const isNobodys = ([a = 0, b = 0, c = 0, d = 0]: readonly number[]): boolean =>
  a === 127 ||
  (a === 0 && b === 0 && c === 0 && d === 0) ||
  a === 255 ||
  (a === 192 && b === 0 && c === 2) ||
  (a === 198 && b === 51 && c === 100) ||
  (a === 203 && b === 0 && c === 113)

const IPV6_CHARS = new CharClass(/[0-9A-Fa-f:.]/)
const BESIDE_IPV6 = new CharClass(/[A-Za-z0-9_:]/)
const LONGEST_IPV6 = 45

/**
 * IPv6 addresses in all forms: full, compressed, with an IPv4 tail. Excluded are times, MAC addresses and
 * `a::b`.
 */
export const ipv6: Detector = {
  triggers: [[/:/, /[0-9A-Fa-f:]/]],
  detect: (reader, at): Match | undefined => {
    let start = at
    while (at - start < LONGEST_IPV6 && IPV6_CHARS.has(reader.at(start - 1))) start--
    if (BESIDE_IPV6.has(reader.at(start - 1))) return undefined
    const end = reader.spanEnd(start, IPV6_CHARS, LONGEST_IPV6 + 1)
    if (!hasEnoughColons(reader, start, end) || BESIDE_IPV6.has(reader.at(end))) return undefined
    const text = withoutStop(reader.slice(start, end))
    return isIpv6(text) ? { start, end: start + text.length, kind: 'ipv6' } : undefined
  },
}

/**
 * A full address has seven colons, one with an IPv4 tail six, a compressed one two adjacent colons. A time has
 * fewer.
 */
function hasEnoughColons(reader: TextReader, start: number, end: number): boolean {
  let colons = 0
  for (let i = start; i < end; i++) {
    if (reader.at(i) !== COLON) continue
    if (++colons === 6 || (i > start && reader.at(i - 1) === COLON)) return true
  }
  return false
}

const COLON = 58

/** Removes a full stop or colon that belongs to the sentence around an address. */
const withoutStop = (text: string): string =>
  text.endsWith('.') || (text.endsWith(':') && !text.endsWith('::')) ? text.slice(0, -1) : text

function isIpv6(text: string): boolean {
  const [head = '', tail, ...more] = text.split('::')
  if (more.length > 0) return false
  const groups = [...groupsOf(head), ...groupsOf(tail ?? '')]
  const count = groups.reduce((sum, group) => sum + (group.includes('.') ? 2 : 1), 0)
  const areGroups = groups.every((group, i) =>
    group.includes('.')
      ? i === groups.length - 1 && /^\d{1,3}(?:\.\d{1,3}){3}$/.test(group)
      : /^[0-9A-Fa-f]{1,4}$/.test(group),
  )
  if (!areGroups || isNobodysIpv6(text)) return false
  if (tail === undefined) return count === 8
  // `a::b` is a member name in several languages. An address has a digit and more than two groups, or a long
  // group.
  return count <= 7 && count >= 2 && /\d/.test(text) && (count > 2 || /[0-9A-Fa-f]{3}/.test(text))
}

const groupsOf = (part: string): string[] => (part === '' ? [] : part.split(':'))

const isNobodysIpv6 = (text: string): boolean => /^(?:::1?|2001:0?db8:.*)$/i.test(text)
