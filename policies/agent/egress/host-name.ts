import { isIP, isIPv6 } from 'node:net'
import { domainToASCII } from 'node:url'

/** A host as every part of the egress path spells it. */
export type HostName =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'address'; readonly name: string }

export type ParsedHost = HostName | { readonly kind: 'refused'; readonly reason: string }

export const MAX_NAME_LENGTH = 253

const NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/

/** URL parsers read a name whose last label is a number as an IPv4 address, such as `127.1` or `0x7f000001`. */
const ENDS_IN_NUMBER = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/

const refused = (reason: string): ParsedHost => ({ kind: 'refused', reason })

/**
 * The only parser of host names: for entries of the policy, targets of CONNECT, `Host`, and the server name of TLS. Two
 * spellings of one host give the same result: lower case, and no dot at the end. Everything that programs read in
 * different ways is refused.
 */
export function parseHostName(text: string): ParsedHost {
  if (text.length > MAX_NAME_LENGTH + 1) return refused(`it is longer than ${MAX_NAME_LENGTH} characters`)
  if (isIP(text) !== 0) return parseAddressName(text)
  const lower = text.toLowerCase()
  const name = lower.endsWith('.') ? lower.slice(0, -1) : lower
  if (name.length > MAX_NAME_LENGTH) return refused(`it is longer than ${MAX_NAME_LENGTH} characters`)
  // `toLowerCase` turns some other letters into ASCII letters.
  if (!isAscii(text) || !NAME.test(name)) return refused('it is not a host name')
  if (ENDS_IN_NUMBER.test(name)) return refused('programs read it as an address')
  if (name.includes('xn--') && domainToASCII(name) !== name)
    return refused('it is not a valid internationalised name')
  return { kind: 'name', name }
}

/** An address in the spelling of the URL standard. */
function parseAddressName(text: string): ParsedHost {
  if (text.includes('%')) return refused('an address must have no zone')
  if (!isIPv6(text)) return { kind: 'address', name: text }
  return { kind: 'address', name: new URL(`http://[${text}]/`).hostname.slice(1, -1) }
}

function isAscii(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 0x7e) return false
  return true
}
