/**
 * The addresses of the cluster in `slot`. Each cluster on a machine has different ranges, so clusters can run side by
 * side.
 */
export interface AddressPlan {
  /** The host's end of the node network. The API server listens on this address. */
  readonly host: string
  readonly linkRange: string
  readonly podRange: string
  readonly serviceRange: string
  readonly apiService: string
  readonly dnsService: string
  node(index: number): string
  podRangeOf(index: number): string
}

/** Higher slots would leave 10.32.0.0/11 for links and 10.64.0.0/11 for pods. */
export const MAX_SLOTS = 32

const FIRST_NODE = 10

export function planAddresses(slot: number): AddressPlan {
  const link = `10.${32 + slot}.0`
  const pods = `10.${64 + slot}`
  return {
    host: `${link}.1`,
    linkRange: `${link}.0/24`,
    podRange: `${pods}.0.0/16`,
    // The host never routes this range, so all clusters can use the same one.
    serviceRange: '10.96.0.0/16',
    apiService: '10.96.0.1',
    dnsService: '10.96.0.10',
    node: (index) => `${link}.${FIRST_NODE + index}`,
    podRangeOf: (index) => `${pods}.${index}.0/24`,
  }
}

/** True if two CIDR ranges overlap. */
export function rangesOverlap(a: string, b: string): boolean {
  const [first, second] = [parseRange(a), parseRange(b)]
  const bits = Math.min(first.bits, second.bits)
  const shift = 2 ** (32 - bits)
  return Math.floor(first.start / shift) === Math.floor(second.start / shift)
}

function parseRange(range: string): { start: number; bits: number } {
  const [address = '', bits = '32'] = range.split('/')
  const start = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  return { start, bits: Number(bits) }
}
