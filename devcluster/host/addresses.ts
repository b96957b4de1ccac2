/** The addresses of the cluster in `slot`: every cluster of a machine has its own, so that they can run side by side. */
export interface AddressPlan {
  /** This machine's end of the link to the nodes: the API server listens here. */
  readonly host: string
  readonly linkRange: string
  readonly podRange: string
  readonly serviceRange: string
  readonly apiService: string
  readonly dnsService: string
  node(index: number): string
  podRangeOf(index: number): string
}

/** Slots beyond would leave 10.32.0.0/11 for links and 10.64.0.0/11 for pods. */
export const MAX_SLOTS = 32

const FIRST_NODE = 10

export function planAddresses(slot: number): AddressPlan {
  const link = `10.${32 + slot}.0`
  const pods = `10.${64 + slot}`
  return {
    host: `${link}.1`,
    linkRange: `${link}.0/24`,
    podRange: `${pods}.0.0/16`,
    // Never routed on the host, so all clusters can have the same.
    serviceRange: '10.96.0.0/16',
    apiService: '10.96.0.1',
    dnsService: '10.96.0.10',
    node: (index) => `${link}.${FIRST_NODE + index}`,
    podRangeOf: (index) => `${pods}.${index}.0/24`,
  }
}

/** True when two ranges in CIDR notation share an address. */
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
