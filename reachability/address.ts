import { isIP } from 'node:net'

/** An address as a number, so that range checks are comparisons. */
export interface Address {
  readonly family: 4 | 6
  readonly value: bigint
}

/** A range of addresses, both ends included. */
export interface Range {
  readonly family: 4 | 6
  readonly first: bigint
  readonly last: bigint
  readonly bits: number
}

const WIDTH = { 4: 32, 6: 128 } as const

/** Parses an address. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) becomes the IPv4 address. */
export function parseAddress(text: string): Address | undefined {
  const family = isIP(text)
  if (family === 4) return { family: 4, value: fromIpv4(text) }
  if (family !== 6 || text.includes('%')) return undefined
  const value = fromIpv6(text)
  return value >> 32n === 0xffffn ? { family: 4, value: value & 0xffffffffn } : { family: 6, value }
}

/**
 * Parses `10.0.0.0/8`. An address without a prefix is a range of one address. Bits beyond the prefix are cleared, as
 * network engines do. Undefined for an IPv4-mapped IPv6 address: its prefix would be read as an
 * IPv4 prefix.
 */
export function parseRange(text: string): Range | undefined {
  const [head = '', length, ...rest] = text.split('/')
  const address = parseAddress(head)
  if (address === undefined || rest.length > 0 || isMapped(head)) return undefined
  const width = WIDTH[address.family]
  if (length !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(length)) return undefined
  const bits = length === undefined ? width : Number(length)
  if (bits > width) return undefined
  const size = 1n << BigInt(width - bits)
  const first = (address.value / size) * size
  return { family: address.family, first, last: first + size - 1n, bits }
}

export const contains = (range: Range, { family, value }: Address): boolean =>
  range.family === family && range.first <= value && value <= range.last

/** Whether every address of `inner` lies in `outer`. */
export const covers = (outer: Range, inner: Range): boolean =>
  outer.family === inner.family && outer.first <= inner.first && inner.last <= outer.last

/** Whether two ranges share an address. */
export const overlaps = (a: Range, b: Range): boolean =>
  a.family === b.family && a.first <= b.last && b.first <= a.last

/** Returns the address in its canonical spelling. */
export function formatAddress({ family, value }: Address): string {
  const parts = family === 4 ? 4 : 8
  const bits = family === 4 ? 8 : 16
  const numbers = Array.from({ length: parts }, (_, index) =>
    Number((value >> BigInt(bits * (parts - 1 - index))) & ((1n << BigInt(bits)) - 1n)),
  )
  if (family === 4) return numbers.join('.')
  return new URL(`http://[${numbers.map((number) => number.toString(16)).join(':')}]`).hostname.slice(1, -1)
}

/** Whether a text is an IPv4-mapped IPv6 address or range, in any spelling: `::ffff:10.0.0.1`, `0:0:0:0:0:FFFF:a00:1`. */
export const isMapped = (text: string): boolean =>
  text.includes(':') && parseAddress(text.split('/', 1)[0] ?? '')?.family === 4

const fromIpv4 = (text: string): bigint =>
  text.split('.').reduce((value, part) => value * 256n + BigInt(part), 0n)

function fromIpv6(text: string): bigint {
  const dotted = /(\d+\.\d+\.\d+\.\d+)$/.exec(text)?.[1]
  const hex = dotted === undefined ? text : text.replace(dotted, asGroups(fromIpv4(dotted)))
  const [head = '', tail] = hex.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const gap = tail === undefined ? 0 : 8 - left.length - right.length
  const groups = [...left, ...Array.from({ length: gap }, () => '0'), ...right]
  return groups.reduce((value, group) => value * 65536n + BigInt(`0x${group}`), 0n)
}

const asGroups = (value: bigint) => `${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`
