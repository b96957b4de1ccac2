import type { Environment } from '../environment/schema.ts'

/** A range that no sandbox may reach, whatever else is allowed. */
export interface ForbiddenRange {
  readonly cidr: string
  readonly what: string
}

/** The same in every environment. A name that resolves into one of them stays out of reach, too. */
export const FORBIDDEN_EVERYWHERE: readonly ForbiddenRange[] = [
  { cidr: '169.254.0.0/16', what: 'link-local addresses, among them the metadata service 169.254.169.254' },
  { cidr: '168.63.129.16/32', what: "Azure's platform address" },
  { cidr: '10.0.0.0/8', what: 'private addresses' },
  { cidr: '172.16.0.0/12', what: 'private addresses' },
  { cidr: '192.168.0.0/16', what: 'private addresses' },
  { cidr: '100.64.0.0/10', what: 'addresses shared behind a provider' },
  { cidr: 'fc00::/7', what: 'private addresses, among them the metadata service fd00:ec2::254' },
  { cidr: 'fe80::/10', what: 'link-local addresses' },
  { cidr: '64:ff9b::/96', what: 'IPv4 addresses behind a translator' },
]

/** What the infrastructure says of its own ranges. They are named even where a private range covers them. */
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

/** Every range that is closed to sandboxes, each once. */
export function forbiddenRanges(environment: Environment): ForbiddenRange[] {
  const all = [...FORBIDDEN_EVERYWHERE, ...clusterRanges(environment)]
  return all.filter(({ cidr }, index) => all.findIndex((other) => other.cidr === cidr) === index)
}

/** Where clouds keep what a pod could borrow an identity from. */
export const METADATA_RANGES: readonly string[] = FORBIDDEN_EVERYWHERE.slice(0, 2).map(({ cidr }) => cidr)
