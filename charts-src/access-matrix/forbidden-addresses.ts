import { contains, parseAddress, parseRange } from '../../reachability/address.ts'
import type { Environment } from '../environment/schema.ts'
import { privateEndpoints } from '../network/private-endpoints.ts'
import { addressIn, type EndpointId } from './endpoints.ts'
import type { World } from './world.ts'

/**
 * Addresses that a sandbox must never reach. They come from docs/network.md, not from the rules, because they
 * test the rules.
 */
const ALWAYS: readonly (readonly [address: string, what: string])[] = [
  ['169.254.169.254', 'the metadata service'],
  ['169.254.170.2', 'a metadata service'],
  ['168.63.129.16', "Azure's platform address"],
  ['192.0.0.192', 'a metadata service'],
  ['fd00:ec2::254', 'the metadata service'],
  ['10.0.0.1', 'a private address'],
  ['10.255.255.254', 'a private address'],
  ['172.16.0.1', 'a private address'],
  ['172.31.255.254', 'a private address'],
  ['192.168.0.1', 'a private address'],
  ['192.168.255.254', 'a private address'],
  ['100.64.0.1', 'an address shared behind a provider'],
  ['100.100.100.200', 'a metadata service'],
  ['100.127.255.254', 'an address shared behind a provider'],
  ['fc00::1', 'a private address'],
  ['fdff:ffff::1', 'a private address'],
  ['fe80::1', 'a link-local address'],
  ['64:ff9b::a9fe:a9fe', 'the metadata service behind a translator'],
]

export interface ForbiddenAddress {
  readonly ip: string
  readonly what: string
}

/** The fixed addresses plus both ends of every cluster range. */
export function forbiddenAddresses({ infra }: Environment): ForbiddenAddress[] {
  const { network, apiServer, database } = infra
  const ranges = [
    ...network.serviceCidrs.map((cidr) => ({ cidr, what: 'a Service' })),
    ...network.podCidrs.map((cidr) => ({ cidr, what: 'a pod' })),
    ...network.nodeCidrs.map((cidr) => ({ cidr, what: 'a node' })),
    ...apiServer.cidrs.map((cidr) => ({ cidr, what: 'the API server' })),
    { cidr: database.cidr, what: 'the database' },
  ]
  return [
    ...ALWAYS.map(([ip, what]) => ({ ip, what })),
    ...ranges.flatMap(({ cidr, what }) =>
      [1n, 1n << 200n].map((place) => ({ ip: addressIn(cidr, place), what: `${what} (${cidr})` })),
    ),
  ]
}

/** The same for one endpoint: the egress proxy may reach the private endpoints of the egress list. */
export function forbiddenTo(id: EndpointId, { environment, egress }: World): ForbiddenAddress[] {
  const all = forbiddenAddresses(environment)
  if (id !== 'proxy') return all
  const ranges = privateEndpoints(environment, egress).flatMap(({ cidr }) => parseRange(cidr) ?? [])
  return all.filter(({ ip }) => {
    const address = parseAddress(ip)
    return address === undefined || !ranges.some((range) => contains(range, address))
  })
}
