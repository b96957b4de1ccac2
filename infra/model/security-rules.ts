/** TCP traffic that a subnet accepts. */
export interface Flow {
  /** A range, or a service tag of Azure. */
  readonly from: string
  readonly ports: readonly string[]
  readonly why: string
}

const FIRST_PRIORITY = 100
const REFUSED_PRIORITY = 3000
const REST_PRIORITY = 4000

/**
 * Rules of a network security group: they allow the named inbound flows and deny all other traffic from the network or
 * the Internet. Azure's own load balancer stays allowed by the default rule after these rules, for probes. Refused
 * ranges are part of the network, or connected with it, and the default rule for the network would allow them.
 */
export function securityRules(flows: readonly Flow[], refusedRanges: readonly string[] = []) {
  const inbound = { direction: 'Inbound', sourcePortRange: '*', destinationAddressPrefix: '*' } as const
  const allowed = flows.map(({ from, ports, why }, index) => ({
    ...inbound,
    name: `allow-${why}`,
    access: 'Allow',
    priority: FIRST_PRIORITY + 10 * index,
    protocol: 'Tcp',
    sourceAddressPrefix: from,
    destinationPortRanges: [...ports],
  }))
  const isOpenToInternet = flows.some(({ from }) => from === 'Internet')
  // Nodes speak to each other and to the API server; Azure's default rule for the network lets them.
  const refused = isOpenToInternet ? 'Internet' : 'VirtualNetwork'
  const others = refusedRanges.map((range, index) => ({
    ...inbound,
    name: `deny-range-${index + 1}`,
    access: 'Deny',
    priority: REFUSED_PRIORITY + index,
    protocol: '*',
    sourceAddressPrefix: range,
    destinationPortRange: '*',
  }))
  return [
    ...allowed,
    ...others,
    {
      ...inbound,
      name: `deny-${refused.toLowerCase()}`,
      access: 'Deny',
      priority: REST_PRIORITY,
      protocol: '*',
      sourceAddressPrefix: refused,
      destinationPortRange: '*',
    },
  ]
}
