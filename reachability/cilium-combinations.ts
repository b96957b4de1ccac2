import type { CiliumEntry, CiliumPort, CiliumPorts } from './cilium-schema.ts'
import type { Direction } from './compiled-rule.ts'
import { type NameSelector, nameFault } from './dns-names.ts'
import { notUnderstood, type PolicyContext, refused } from './policy-context.ts'

const MAX_PORTS = 40

/** Field names of the peer lists, per direction. */
const LISTS = {
  ingress: {
    endpoints: 'fromEndpoints',
    entities: 'fromEntities',
    cidrs: 'fromCIDR',
    cidrSet: 'fromCIDRSet',
  },
  egress: {
    endpoints: 'toEndpoints',
    entities: 'toEntities',
    cidrs: 'toCIDR',
    cidrSet: 'toCIDRSet',
    names: 'toFQDNs',
  },
} as const

/**
 * Finds combinations that the CRD's schema accepts and the agent then rejects (pkg/policy/api/rule_validation.go of
 * 1.20). The agent only logs the rejection, and the policy has no effect on the pods.
 */
export function checkCombinations(
  context: PolicyContext,
  { path, direction }: { readonly path: string; readonly direction: Direction },
  entry: CiliumEntry,
): void {
  const used = Object.entries(LISTS[direction]).filter(
    ([list]) => (entry[list as keyof CiliumEntry]?.length ?? 0) > 0,
  )
  if (used.length > 1)
    refused(
      context,
      path,
      `combining ${used.map(([, name]) => name).join(' and ')} is not supported by Cilium`,
    )
  for (const [index, name] of (entry.names ?? []).entries()) {
    const fault = nameFault(name)
    if (fault !== undefined) refused(context, `${path}.toFQDNs[${index}]`, fault)
  }
  if (entry.names?.length === 0)
    notUnderstood(context, `${path}.toFQDNs`, 'is empty: with toPorts Cilium reads that as everybody')
  for (const [index, ports] of entry.toPorts.entries())
    checkPorts(context, { path: `${path}.toPorts[${index}]`, direction }, ports)
}

interface PortsPlace {
  readonly path: string
  readonly direction: Direction
}

function checkPorts(context: PolicyContext, place: PortsPlace, { ports = [], rules }: CiliumPorts): void {
  const { path } = place
  if (ports.length > MAX_PORTS) refused(context, path, `has more than ${MAX_PORTS} ports`)
  const lookups = rules?.dns
  if (lookups !== undefined) checkLookups(context, place, { lookups, ports })
  for (const [index, port] of ports.entries()) {
    const fault = portFault(port) ?? (lookups?.length ? lookupPortFault(port) : undefined)
    if (fault !== undefined) refused(context, `${path}.ports[${index}]`, fault)
    const oddity = portOddity(port)
    if (oddity !== undefined) notUnderstood(context, `${path}.ports[${index}]`, oddity)
  }
}

function checkLookups(
  context: PolicyContext,
  { path, direction }: PortsPlace,
  { lookups, ports }: { readonly lookups: readonly NameSelector[]; readonly ports: readonly CiliumPort[] },
): void {
  const at = `${path}.rules.dns`
  if (lookups.length === 0) notUnderstood(context, at, 'is empty: Cilium reads that as no rule at all')
  else if (direction === 'ingress') refused(context, at, 'DNS rules are not allowed on ingress')
  else if (ports.length === 0) refused(context, at, 'DNS rules need port 53 to be named')
  for (const [index, name] of lookups.entries()) {
    const fault = nameFault(name)
    if (fault !== undefined) refused(context, `${at}[${index}]`, fault)
  }
}

function portFault({ port }: CiliumPort): string | undefined {
  if (port === '') return 'a port must be named'
  if (isPortName(port)) return undefined
  return /^\d+$/.test(port) && Number(port) <= 65_535 ? undefined : `"${port}" is no port`
}

/** Port values that the agent accepts but that are almost always a mistake. */
function portOddity({ port, endPort = 0 }: CiliumPort): string | undefined {
  if (/^0\d|^0x/i.test(port)) return `"${port}" is read as octal or as a name`
  if (isPortName(port)) return endPort > 0 ? 'a port with a name has an endPort' : undefined
  return endPort > 0 && endPort < Number(port) ? 'endPort lies before port, and is ignored' : undefined
}

function lookupPortFault({ port, endPort = 0 }: CiliumPort): string | undefined {
  if (Number(port) === 0) return 'DNS rules cannot be used with port 0'
  return endPort > Number(port) ? 'DNS rules do not support ranges of ports' : undefined
}

/** IANA service names: letters, digits and single inner dashes, with at least one letter. */
export const isPortName = (text: string): boolean =>
  text.length <= 15 && /^(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*$/i.test(text)
