import { isIPv4, isIPv6 } from 'node:net'
import { EMBEDDINGS, GLOBAL_UNICAST, ISATAP, NEVER, PRIVATE } from './address-ranges.ts'

/** An address as 4 or 16 bytes. */
export type AddressBytes = Uint8Array

export interface AddressRange {
  readonly bytes: AddressBytes
  readonly bits: number
}

/** Parses an address. Undefined if the text is not an address, or has a zone. */
export function addressBytes(text: string): AddressBytes | undefined {
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number)
  return isIPv6(text) && !text.includes('%') ? bytesOfIPv6(text) : undefined
}

function bytesOfIPv6(text: string): AddressBytes {
  const [head = '', tail] = withoutDots(text).split('::')
  const before = groupsOf(head)
  const after = groupsOf(tail ?? '')
  const zeros = tail === undefined ? [] : new Array<number>(8 - before.length - after.length).fill(0)
  return Uint8Array.from([...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]))
}

const groupsOf = (text: string) =>
  text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16))

/** Writes an IPv4 address at the end as two groups. */
function withoutDots(text: string): string {
  const start = text.lastIndexOf(':') + 1
  const last = text.slice(start)
  if (!last.includes('.')) return text
  const [a = 0, b = 0, c = 0, d = 0] = last.split('.').map(Number)
  return `${text.slice(0, start)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}

/** Parses `address/bits`, or a single address. Undefined if it is neither, or if bits after the prefix are set. */
export function parseRange(text: string): AddressRange | undefined {
  const [address = '', suffix, ...more] = text.split('/')
  const bytes = addressBytes(address)
  if (!bytes || more.length > 0) return undefined
  const all = bytes.length * 8
  if (suffix !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(suffix)) return undefined
  const bits = suffix === undefined ? all : Number(suffix)
  if (bits > all || trailingBits(bytes, bits)) return undefined
  return { bytes, bits }
}

const trailingBits = (bytes: AddressBytes, bits: number) =>
  bytes.some((byte, index) => (byte & ~maskOf(bits - index * 8) & 0xff) !== 0)

/** The mask of a byte whose first `bits` bits belong to the prefix. */
const maskOf = (bits: number) => (bits >= 8 ? 0xff : bits <= 0 ? 0 : (0xff << (8 - bits)) & 0xff)

export function isInRange(address: AddressBytes, { bytes, bits }: AddressRange): boolean {
  if (address.length !== bytes.length) return false
  return bytes.every((byte, index) => ((byte ^ (address[index] as number)) & maskOf(bits - index * 8)) === 0)
}

function range(text: string): AddressRange {
  const parsed = parseRange(text)
  if (parsed) return parsed
  throw new Error(`not an address range: ${text}`)
}

const never = NEVER.map(range)
const notPublic = PRIVATE.map(range)
/** `::1` lies in the range of IPv4-compatible addresses. */
const loopback = range('::1')
const globalUnicast = range(GLOBAL_UNICAST)
const embeddings = EMBEDDINGS.map((one) => ({ ...one, range: range(one.range) }))

/** The IPv4 addresses that an IPv6 address contains. */
function embedded(address: AddressBytes): AddressBytes[] {
  if (address.length !== 16 || isInRange(address, loopback)) return []
  const found = embeddings
    .filter((one) => isInRange(address, one.range))
    .map((one) => {
      const inner = address.slice(one.at, one.at + 4)
      return 'isInverted' in one ? inner.map((byte) => byte ^ 0xff) : inner
    })
  const { at, bytes, universalBit, addressAt } = ISATAP
  const isIsatap = bytes.every((byte, index) => {
    const own = address[at + index] as number
    return byte === (index === 0 ? own & ~universalBit : own)
  })
  return isIsatap ? [...found, address.slice(addressAt, addressAt + 4)] : found
}

const isAny = (address: AddressBytes, ranges: readonly AddressRange[]) =>
  ranges.some((one) => isInRange(address, one))

/** Returns the kind of an address itself, without looking at embedded ones. */
function ownKind(address: AddressBytes, hasEmbedded: boolean): 'never' | 'private' | 'public' {
  if (isAny(address, never)) return 'never'
  if (isAny(address, notPublic)) return 'private'
  const isPublic = address.length === 4 || hasEmbedded || isInRange(address, globalUnicast)
  return isPublic ? 'public' : 'private'
}

export interface AddressQuestion {
  readonly address: string
  /** Addresses of this machine's interfaces. */
  readonly own: readonly string[]
  /** The entry's `addresses`. The host may have no address outside them. */
  readonly allowed?: readonly string[] | undefined
  /** Private addresses and the addresses of this machine are allowed. Metadata addresses never are. */
  readonly isPrivateAllowed?: boolean | undefined
}

/** Returns why the address must not be dialled, or undefined. */
export function addressFault({
  address,
  own,
  allowed,
  isPrivateAllowed,
}: AddressQuestion): string | undefined {
  const bytes = addressBytes(address)
  if (!bytes) return 'it is not an address'
  const inner = embedded(bytes)
  const all = [bytes, ...inner]
  const kinds = [ownKind(bytes, inner.length > 0), ...inner.map((one) => ownKind(one, false))]
  if (kinds.includes('never')) return 'it is a metadata, link-local or multicast address'
  const named = allowed?.map(range).filter((one) => isInRange(bytes, one))
  if (named?.length === 0) return "it is outside the entry's addresses"
  if (isPrivateAllowed) return undefined
  if (!named && kinds.includes('private')) return 'it is a private address'
  // A range opens a network. The machine itself must be named.
  if (named?.some(({ bits }) => bits === bytes.length * 8)) return undefined
  const ownBytes = own.flatMap((text) => addressBytes(text) ?? [])
  const isOwn = ownBytes.some((mine) =>
    all.some((one) => isInRange(one, { bytes: mine, bits: mine.length * 8 })),
  )
  return isOwn ? 'it is an address of the machine of the egress proxy' : undefined
}

/** Whether nobody outside a private network can read what is sent to this address. */
export function isPrivate(address: string): boolean {
  const bytes = addressBytes(address)
  return bytes !== undefined && embedded(bytes).length === 0 && ownKind(bytes, false) === 'private'
}

/** Whether an entry's `addresses` are single addresses, which need no look-up. */
export function singleAddresses(allowed: readonly string[]): string[] | undefined {
  const ranges = allowed.map(range)
  const isSingle = ranges.every(({ bytes, bits }) => bits === bytes.length * 8)
  return isSingle ? allowed.map((text) => text.split('/')[0] as string) : undefined
}
