import { METADATA_RANGES } from '../../contracts/metadata-ranges.ts'
import type { Environment } from '../environment/schema.ts'

/** A range that no sandbox may reach, even if another policy allows it. */
export interface ForbiddenRange {
  readonly cidr: string
  readonly what: string
}

const [LINK_LOCAL, PLATFORM] = METADATA_RANGES.azure

/** Forbidden in every environment. Names that resolve to these addresses stay unreachable too. */
export const FORBIDDEN_EVERYWHERE: readonly ForbiddenRange[] = [
  { cidr: LINK_LOCAL, what: 'link-local addresses, including the metadata service 169.254.169.254' },
  { cidr: PLATFORM, what: "Azure's platform address" },
  // The private ranges below contain the addresses of the other clouds.
  { cidr: METADATA_RANGES.oracle, what: "Oracle's metadata service" },
  { cidr: '10.0.0.0/8', what: 'private addresses' },
  { cidr: '172.16.0.0/12', what: 'private addresses' },
  { cidr: '192.168.0.0/16', what: 'private addresses' },
  { cidr: '100.64.0.0/10', what: 'shared addresses of providers (carrier-grade NAT)' },
  { cidr: 'fc00::/7', what: 'private addresses, including the metadata service fd00:ec2::254' },
  { cidr: 'fe80::/10', what: 'link-local addresses' },
  { cidr: '64:ff9b::/96', what: 'IPv4 addresses behind NAT64' },
]

/** Ranges of the infrastructure's outputs. They are listed even where a private range covers them. */
export function clusterRanges({ infra }: Environment): ForbiddenRange[] {
  const { network, apiServer, database } = infra
  return [
    ...network.serviceCidrs.map((cidr) => ({ cidr, what: 'Services of the cluster' })),
    ...network.podCidrs.map((cidr) => ({ cidr, what: 'pods of the cluster' })),
    ...network.nodeCidrs.map((cidr) => ({ cidr, what: 'nodes of the cluster' })),
    ...apiServer.cidrs.map((cidr) => ({ cidr, what: 'the API server' })),
    { cidr: database.cidr, what: 'the database' },
  ]
}

/** Every range that sandboxes may not reach, without duplicates. */
export function forbiddenRanges(environment: Environment): ForbiddenRange[] {
  const all = [...FORBIDDEN_EVERYWHERE, ...clusterRanges(environment)]
  return all.filter(({ cidr }, index) => all.findIndex((other) => other.cidr === cidr) === index)
}

/** Metadata services of all clouds, and the link-local addresses of IPv6. */
export const ALL_METADATA_RANGES: readonly string[] = [
  ...METADATA_RANGES.azure,
  METADATA_RANGES.oracle,
  ...METADATA_RANGES.otherClouds,
  'fe80::/10',
]
