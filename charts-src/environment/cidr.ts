import { BlockList, isIPv4, SocketAddress } from 'node:net'

const FAMILY = { ipv4: 32, ipv6: 128 } as const

interface Range {
  readonly address: string
  readonly family: keyof typeof FAMILY
  readonly bits: number
}

function parseRange(cidr: string): Range {
  const [address = '', bits = ''] = cidr.split('/')
  return { address, family: isIPv4(address) ? 'ipv4' : 'ipv6', bits: Number(bits) }
}

/** True when `inner` lies wholly in `outer`. */
export function containsRange(outer: string, inner: string): boolean {
  const [wide, narrow] = [parseRange(outer), parseRange(inner)]
  if (wide.family !== narrow.family || wide.bits > narrow.bits) return false
  const list = new BlockList()
  list.addSubnet(wide.address, wide.bits, wide.family)
  return list.check(narrow.address, narrow.family)
}

export function rangesOverlap(a: string, b: string): boolean {
  return containsRange(a, b) || containsRange(b, a)
}

/** True when no bit is set behind the prefix, so that the range has one spelling. */
export function isNetworkAddress(cidr: string): boolean {
  const { address, family, bits } = parseRange(cidr)
  if (bits === FAMILY[family]) return true
  // An address is the first of its range exactly if the one before it is outside.
  const list = new BlockList()
  list.addSubnet(address, bits, family)
  const before = previousAddress(address, family)
  return before === undefined || !list.check(before, family)
}

function previousAddress(address: string, family: Range['family']): string | undefined {
  const value = toNumber(new SocketAddress({ address, family }).address, family)
  return value === 0n ? undefined : fromNumber(value - 1n, family)
}

function toNumber(address: string, family: Range['family']): bigint {
  if (family === 'ipv4') return address.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n)
  const [head = '', tail] = address.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array<string>(8 - left.length - right.length).fill('0')
  return [...left, ...zeros, ...right].reduce((sum, part) => sum * 65_536n + BigInt(`0x${part}`), 0n)
}

function fromNumber(value: bigint, family: Range['family']): string {
  const [count, width, base] = family === 'ipv4' ? [4, 8n, 10] : [8, 16n, 16]
  const parts = Array.from({ length: count }, (_, index) =>
    ((value >> (width * BigInt(count - 1 - index))) & ((1n << width) - 1n)).toString(base),
  )
  return parts.join(family === 'ipv4' ? '.' : ':')
}
