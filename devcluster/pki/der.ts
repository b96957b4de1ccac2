/** The ASN.1 DER values that an X.509 certificate needs. */

export function encode(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag]), lengthOf(body.length), body])
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length])
  const bytes = Buffer.from(length.toString(16).padStart(length > 0xff ? 4 : 2, '0'), 'hex')
  return Buffer.concat([Buffer.from([0x80 | bytes.length]), bytes])
}

export const sequence = (...parts: readonly Uint8Array[]) => encode(0x30, ...parts)
export const set = (...parts: readonly Uint8Array[]) => encode(0x31, ...parts)
export const octets = (content: Uint8Array) => encode(0x04, content)
export const utf8 = (text: string) => encode(0x0c, Buffer.from(text))
export const truth = () => encode(0x01, Buffer.from([0xff]))

/** Context-specific tag `number`: constructed for a nested value, primitive for raw bytes. */
export const explicit = (number: number, content: Uint8Array) => encode(0xa0 | number, content)
export const implicit = (number: number, content: Uint8Array) => encode(0x80 | number, content)

/** A positive integer from its big-endian bytes. */
export function integer(bytes: Uint8Array): Buffer {
  const first = bytes[0] ?? 0
  return first & 0x80 ? encode(0x02, Buffer.from([0]), bytes) : encode(0x02, bytes)
}

export function bits(content: Uint8Array, unused = 0): Buffer {
  return encode(0x03, Buffer.from([unused]), content)
}

export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return encode(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

function base128(value: number): number[] {
  const digits = [value & 0x7f]
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) digits.unshift((rest & 0x7f) | 0x80)
  return digits
}

/** UTCTime, which covers years before 2050. */
export function time(at: Date): Buffer {
  return encode(0x17, Buffer.from(`${at.toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`))
}
