import { METADATA_RANGES } from '../../contracts/metadata-ranges.ts'

/**
 * Addresses that are not public, from the special-purpose registries of IANA (RFC 6890), and the metadata services of
 * clouds. Of IPv6, only global unicast (2000::/3) and embeddings of public IPv4 addresses are public.
 */

/** Never reached, even if an entry allows them: metadata services, and addresses that are not of a single host. */
export const NEVER = [
  ...METADATA_RANGES.azure,
  METADATA_RANGES.oracle,
  ...METADATA_RANGES.otherClouds,
  ...['0.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::/128', 'fe80::/10', 'fec0::/10', 'ff00::/8'],
] as const

/** Reached only by an entry that names the range in `addresses`. */
export const PRIVATE = [
  ...['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
  ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['::1/128', 'fc00::/7', '2001::/23', '2001:db8::/32', '3fff::/20'],
  // For translation inside a network. Where the IPv4 address is depends on the network's prefix.
  '64:ff9b:1::/48',
] as const

export const GLOBAL_UNICAST = '2000::/3'

/** IPv6 ranges that contain an IPv4 address, and the byte at which it starts. Teredo inverts the client's address. */
export const EMBEDDINGS = [
  { range: '::/96', at: 12 },
  { range: '::ffff:0:0/96', at: 12 },
  { range: '::ffff:0:0:0/96', at: 12 },
  { range: '64:ff9b::/96', at: 12 },
  { range: '2002::/16', at: 2 },
  { range: '2001::/32', at: 4 },
  { range: '2001::/32', at: 12, isInverted: true },
] as const

/** ISATAP: any prefix with this interface identifier, apart from its universal bit, and an IPv4 address. */
export const ISATAP = { at: 8, bytes: [0x00, 0x00, 0x5e, 0xfe], universalBit: 0x02, addressAt: 12 } as const
