/** An IPv4 range: `from` and `to` are the first and the last address as numbers, `bits` the prefix length. */
export interface Range {
  readonly cidr: string
  readonly from: number
  readonly to: number
  readonly bits: number
}

const OCTET = '(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)'
const CIDR = new RegExp(`^(${OCTET})\\.(${OCTET})\\.(${OCTET})\\.(${OCTET})/(3[0-2]|[12]?\\d)$`)

/** `10.0.0.0/16` as numbers. Undefined for text that is no range or has bits set beyond its prefix. */
export function parseCidr(cidr: string): Range | undefined {
  const parts = CIDR.exec(cidr)?.slice(1).map(Number)
  if (parts === undefined) return undefined
  const [a = 0, b = 0, c = 0, d = 0, bits = 0] = parts
  const from = ((a * 256 + b) * 256 + c) * 256 + d
  const size = 2 ** (32 - bits)
  return from % size === 0 ? { cidr, from, to: from + size - 1, bits } : undefined
}

export const overlaps = (a: Range, b: Range) => a.from <= b.to && b.from <= a.to
export const contains = (outer: Range, inner: Range) => outer.from <= inner.from && inner.to <= outer.to

/** The address at an offset from the first of a range, in dotted form. Throws beyond its end. */
export function addressAt(range: Range, offset: number): string {
  const address = range.from + offset
  if (!Number.isInteger(offset) || offset < 0 || address > range.to) {
    throw new RangeError(`${range.cidr} has no address number ${offset}`)
  }
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.')
}

const PRIVATE = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10']

/** Whether a range lies completely in private address space (RFC 1918, RFC 6598). */
export function isPrivate(range: Range): boolean {
  return PRIVATE.some((cidr) => {
    const outer = parseCidr(cidr)
    return outer !== undefined && contains(outer, range)
  })
}
