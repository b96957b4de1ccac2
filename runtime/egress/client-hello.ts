/** Constants from RFC 8446, RFC 6066 and the ECH registration. */
const HANDSHAKE = 22
const CHANGE_CIPHER_SPEC = 20
const CLIENT_HELLO = 1
const SERVER_HELLO = 2
const SERVER_NAME = 0
const ENCRYPTED_CLIENT_HELLO = 0xfe0d
/** Earlier drafts of ECH. */
const ENCRYPTED_SERVER_NAME = 0xffce
const HOST_NAME = 0
const TLS_MAJOR = 3
const RECORD_HEADER = 5
const MESSAGE_HEADER = 4
const MAX_RECORD = 16_384
/** Clients use one record, or a few. Each packet reads all of them again, so many small ones would cost much time. */
const MAX_RECORDS = 64

/** SHA-256 of `HelloRetryRequest`, the random of such a ServerHello. */
const RETRY_RANDOM = Buffer.from('cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c', 'hex')

/** The first byte of a TLS connection. */
export const isTlsRecord = (byte: number): boolean => byte === HANDSHAKE

export type HelloFault = 'client-hello' | 'no-server-name' | 'encrypted-client-hello'

export type HelloReading =
  | { readonly kind: 'more' }
  /** `length` is the number of bytes up to the end of its last record. */
  | { readonly kind: 'hello'; readonly serverName: string; readonly length: number }
  | { readonly kind: 'refused'; readonly fault: HelloFault; readonly reason: string }

const MORE: HelloReading = { kind: 'more' }
const refused = (reason: string, fault: HelloFault = 'client-hello'): HelloReading => ({
  kind: 'refused',
  fault,
  reason,
})

/** Reads one ClientHello, which may be split over records. Records and message must end together. */
export function readClientHello(bytes: Buffer, maxBytes: number): HelloReading {
  let message = Buffer.alloc(0)
  let at = 0
  for (let records = 0; records < MAX_RECORDS; records += 1) {
    const record = readRecord(bytes, at)
    if (typeof record === 'string') return record === 'more' ? MORE : refused(record)
    message = Buffer.concat([message, record])
    at += RECORD_HEADER + record.length
    const reading = readWhole(message, { end: at, maxBytes })
    if (reading) return reading
  }
  return refused('the ClientHello is split into too many records')
}

/** Reads a message if it is complete. */
function readWhole(
  message: Buffer,
  { end, maxBytes }: { readonly end: number; readonly maxBytes: number },
): HelloReading | undefined {
  if (message[0] !== CLIENT_HELLO) return refused('the first message is not a ClientHello')
  const length = messageLength(message)
  if (length === undefined) return undefined
  if (length > maxBytes) return refused(`the ClientHello is longer than ${maxBytes} bytes`)
  if (message.length > length) return refused('more data follows the ClientHello in its record')
  return message.length === length ? readMessage(message, end) : undefined
}

function messageLength(message: Buffer): number | undefined {
  return message.length < MESSAGE_HEADER ? undefined : MESSAGE_HEADER + message.readUIntBE(1, 3)
}

/** Returns the content of a handshake record, `more`, or the problem. */
function readRecord(bytes: Buffer, at: number): Buffer | string {
  const [type = HANDSHAKE, version = TLS_MAJOR] = bytes.subarray(at, at + 2)
  if (type !== HANDSHAKE) return 'a record is no handshake record'
  if (version !== TLS_MAJOR) return 'the version of a record is not TLS'
  if (bytes.length < at + RECORD_HEADER) return 'more'
  const length = bytes.readUInt16BE(at + 3)
  if (length === 0 || length > MAX_RECORD) return 'a record is empty or too long'
  const end = at + RECORD_HEADER + length
  return bytes.length < end ? 'more' : bytes.subarray(at + RECORD_HEADER, end)
}

/** Walks over length-prefixed fields. Throws `RangeError` beyond the end, as Buffer does. */
class Fields {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  number(size: number): number {
    const value = this.#bytes.readUIntBE(this.#at, size)
    this.#at += size
    return value
  }

  take(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw new RangeError('a field exceeds its message')
    const taken = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }

  vector(sizeOfLength: number): Buffer {
    return this.take(this.number(sizeOfLength))
  }
}

function readMessage(message: Buffer, length: number): HelloReading {
  try {
    return readExtensions(extensionsOf(new Fields(message.subarray(MESSAGE_HEADER))), length)
  } catch (error) {
    if (error instanceof RangeError) return refused('the ClientHello is malformed')
    throw error
  }
}

function extensionsOf(hello: Fields): Fields {
  hello.take(2 + 32)
  hello.vector(1)
  hello.vector(2)
  hello.vector(1)
  if (hello.isAtEnd) return new Fields(Buffer.alloc(0))
  const extensions = new Fields(hello.vector(2))
  if (!hello.isAtEnd) throw new RangeError('data follows the extensions')
  return extensions
}

function readExtensions(extensions: Fields, length: number): HelloReading {
  const seen = new Map<number, Buffer>()
  while (!extensions.isAtEnd) {
    const type = extensions.number(2)
    if (seen.has(type)) return refused('an extension occurs twice')
    seen.set(type, extensions.vector(2))
  }
  if (seen.has(ENCRYPTED_CLIENT_HELLO) || seen.has(ENCRYPTED_SERVER_NAME))
    return refused('the server name is encrypted (ECH)', 'encrypted-client-hello')
  const extension = seen.get(SERVER_NAME)
  if (!extension) return refused('the ClientHello has no server name', 'no-server-name')
  const serverName = readServerName(extension)
  return serverName === undefined
    ? refused('the server name is malformed, or there is more than one')
    : { kind: 'hello', serverName, length }
}

function readServerName(extension: Buffer): string | undefined {
  const outer = new Fields(extension)
  const list = new Fields(outer.vector(2))
  const type = list.number(1)
  const name = list.vector(2)
  return type === HOST_NAME && outer.isAtEnd && list.isAtEnd ? name.toString('latin1') : undefined
}

export type ServerStart = 'hello' | 'retry' | 'alert' | 'other'

const ALERT = 21
const WARNING = 1
const ALERT_LENGTH = 2
const MAX_WARNINGS = 4

/**
 * Reads the start of a server's answer. Undefined if more bytes are needed. Servers may send warnings first. If the start
 * of a ServerHello is not in one record, only the server knows whether a second ClientHello is due.
 */
export function readServerStart(bytes: Buffer, warnings = 0): ServerStart | undefined {
  const [type] = bytes
  if (type === HANDSHAKE) return bytes.length < RECORD_HEADER ? undefined : startOfHello(bytes)
  if (type === ALERT && warnings < MAX_WARNINGS) return afterAlert(bytes, warnings)
  return type === undefined ? undefined : 'other'
}

function afterAlert(bytes: Buffer, warnings: number): ServerStart | undefined {
  const end = RECORD_HEADER + ALERT_LENGTH
  if (bytes.length < end) return undefined
  if (bytes.readUInt16BE(3) !== ALERT_LENGTH) return 'other'
  return bytes[RECORD_HEADER] === WARNING ? readServerStart(bytes.subarray(end), warnings + 1) : 'alert'
}

function startOfHello(record: Buffer): ServerStart | undefined {
  const needed = MESSAGE_HEADER + 2 + RETRY_RANDOM.length
  if (record.readUInt16BE(3) < needed) return 'other'
  if (record.length > RECORD_HEADER && record[RECORD_HEADER] !== SERVER_HELLO) return 'other'
  const isRetry = isRetryRequest(record)
  return isRetry === undefined ? undefined : isRetry ? 'retry' : 'hello'
}

/** Whether a ServerHello asks for a second ClientHello. Undefined if more bytes are needed. */
function isRetryRequest(bytes: Buffer): boolean | undefined {
  const randomAt = RECORD_HEADER + MESSAGE_HEADER + 2
  if (bytes.length < randomAt + RETRY_RANDOM.length) return undefined
  return bytes.subarray(randomAt, randomAt + RETRY_RANDOM.length).equals(RETRY_RANDOM)
}

const APPLICATION_DATA = 23
const MAX_EARLY_BYTES = 65_536

/**
 * The length of the records that TLS 1.3 clients may send before their second ClientHello: early data, which the server
 * ignores after it has asked for that, and one ChangeCipherSpec.
 */
export function beforeSecondHello(bytes: Buffer): number {
  let at = 0
  while (at < MAX_EARLY_BYTES && bytes[at] === APPLICATION_DATA && bytes.length >= at + RECORD_HEADER) {
    const end = at + RECORD_HEADER + bytes.readUInt16BE(at + 3)
    if (end > bytes.length) break
    at = end
  }
  at += changeCipherSpecLength(bytes.subarray(at))
  return at
}

/** The length of the ChangeCipherSpec record that TLS 1.3 clients may send before a ClientHello. */
export function changeCipherSpecLength(bytes: Buffer): number {
  const isWhole = bytes.length >= RECORD_HEADER + 1 && bytes[0] === CHANGE_CIPHER_SPEC
  return isWhole && bytes.readUInt16BE(3) === 1 ? RECORD_HEADER + 1 : 0
}
