/** Builds ClientHello and ServerHello messages byte by byte, also such that no client sends. */
const u16 = (value: number) => [value >> 8, value & 0xff]
const u24 = (value: number) => [value >> 16, ...u16(value & 0xffff)]

type Extension = readonly [type: number, bytes: readonly number[]]

const nameEntry = (name: string, type = 0) => {
  const bytes = [...Buffer.from(name, 'latin1')]
  return [type, ...u16(bytes.length), ...bytes]
}

export const serverName = (...names: string[]): Extension => {
  const list = names.flatMap((name) => nameEntry(name))
  return [0, [...u16(list.length), ...list]]
}

export function helloMessage(extensions: readonly Extension[]): Buffer {
  const body = extensions.flatMap(([type, bytes]) => [...u16(type), ...u16(bytes.length), ...bytes])
  const hello = [
    ...u16(0x0303),
    ...new Array(32).fill(7),
    0,
    ...u16(2),
    0x13,
    0x01,
    1,
    0,
    ...u16(body.length),
    ...body,
  ]
  return Buffer.from([1, ...u24(hello.length), ...hello])
}

export const record = (content: Uint8Array, type = 22): Buffer =>
  Buffer.concat([Buffer.from([type, 3, 1, ...u16(content.length)]), content])

export const clientHello = (name: string) => record(helloMessage([serverName(name)]))

/** Splits a message over records of `size` bytes. */
export function fragmented(message: Buffer, size: number): Buffer {
  const pieces: Buffer[] = []
  for (let at = 0; at < message.length; at += size) pieces.push(record(message.subarray(at, at + size)))
  return Buffer.concat(pieces)
}

const RETRY = 'cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c'

export function serverHello(random: 'retry' | 'other'): Buffer {
  const bytes = random === 'retry' ? Buffer.from(RETRY, 'hex') : Buffer.alloc(32, 9)
  const hello = [...u16(0x0303), ...bytes, 0, 0x13, 0x01, 0, 0, 0]
  return record(Buffer.from([2, ...u24(hello.length), ...hello]))
}
