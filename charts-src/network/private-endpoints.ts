import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import { covers, overlaps, parseRange, type Range } from '../../reachability/address.ts'
import type { Environment } from '../environment/schema.ts'
import { upstreamPlace } from '../environment/upstream-proxy.ts'
import { ALL_METADATA_RANGES, clusterRanges, FORBIDDEN_EVERYWHERE } from './forbidden.ts'

/** Private addresses of a destination, which the egress proxy may reach at these ports. */
export interface PrivateEndpoint {
  readonly host: string
  readonly cidr: string
  readonly ports: readonly number[]
}

interface Named extends PrivateEndpoint {
  /** Absent if the text cannot be read as a range. */
  readonly range: Range | undefined
}

/**
 * The private addresses in entries of the egress list, and the addresses of the company's proxy. Empty without the egress proxy,
 * because no other rule checks names.
 */
export function privateEndpoints(environment: Environment, egress: ResolvedEgress): PrivateEndpoint[] {
  return namedBy(environment, egress)
    .filter((one) => faultOf(environment, one) === undefined && one.range && isPrivate(one.range))
    .map(({ range: _range, ...endpoint }) => endpoint)
}

/** The entries whose addresses no proxy may reach. */
export const forbiddenEndpoints = (environment: Environment, egress: ResolvedEgress): string[] =>
  namedBy(environment, egress).flatMap((one) => faultOf(environment, one) ?? [])

function namedBy({ egress: { mode, upstreamProxy } }: Environment, { classes }: ResolvedEgress): Named[] {
  if (mode !== 'proxy') return []
  const ofCompany = upstreamProxy ? [upstreamPlace(upstreamProxy)] : []
  const entries = [...ofCompany, ...classes.agent, ...classes.command]
  const all = entries.flatMap(({ host, ports, addresses = [] }) =>
    addresses.map((text): Named => {
      const cidr = asRange(text)
      return { host, cidr, ports, range: parseRange(cidr) }
    }),
  )
  const keyOf = ({ cidr, ports }: Named) => `${cidr} ${ports.join()}`
  return all.filter((one, index) => all.findIndex((other) => keyOf(other) === keyOf(one)) === index)
}

/** One address as a range of one address. */
export const asRange = (text: string): string =>
  text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`

const rangesOf = (cidrs: readonly string[]) => cidrs.flatMap((cidr) => parseRange(cidr) ?? [])
const METADATA = rangesOf(ALL_METADATA_RANGES)
const FORBIDDEN = rangesOf(FORBIDDEN_EVERYWHERE.map(({ cidr }) => cidr))

const isPrivate = (range: Range) => FORBIDDEN.some((forbidden) => covers(forbidden, range))

function faultOf(environment: Environment, { host, cidr, range }: Named): string | undefined {
  if (range === undefined) return `${cidr} of ${host} is not a range of addresses`
  const isAmong = (ranges: readonly Range[]) => ranges.some((one) => overlaps(one, range))
  if (isAmong(METADATA)) return `${cidr} of ${host} has metadata addresses`
  const own = clusterRanges(environment)
  const found = own.find((one) => isAmong(rangesOf([one.cidr])))
  if (found) return `${cidr} of ${host} overlaps ${found.cidr}: ${found.what}`
  return isPrivate(range) || !isAmong(FORBIDDEN)
    ? undefined
    : `${cidr} of ${host} is larger than one private range`
}
