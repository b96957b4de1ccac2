import * as z from 'zod'
import { NameSelector } from './dns-names.ts'
import { LabelSelector } from './selector.ts'

/**
 * The supported part of Cilium's policy language. All other fields (`icmps`, `toServices`, `toNodes`, `toGroups`, HTTP,
 * TLS, `serverNames`, `listener`, `authentication`, CIDR groups, node selectors) are unknown keys and rejected.
 */
const Port = z.strictObject({
  port: z.string(),
  endPort: z.int().min(0).max(65_535).optional(),
  protocol: z.enum(['TCP', 'UDP', 'SCTP', 'ANY']).default('ANY'),
})
const AllowedPorts = z.strictObject({
  ports: z.array(Port).optional(),
  rules: z.strictObject({ dns: z.array(NameSelector).optional() }).optional(),
})
const DeniedPorts = z.strictObject({ ports: z.array(Port).optional() })
const CidrRule = z.strictObject({ cidr: z.string(), except: z.array(z.string()).optional() })

const ingressPeers = {
  fromEndpoints: z.array(LabelSelector).optional(),
  fromEntities: z.array(z.string()).optional(),
  fromCIDR: z.array(z.string()).optional(),
  fromCIDRSet: z.array(CidrRule).optional(),
}
const egressPeers = {
  toEndpoints: z.array(LabelSelector).optional(),
  toEntities: z.array(z.string()).optional(),
  toCIDR: z.array(z.string()).optional(),
  toCIDRSet: z.array(CidrRule).optional(),
}

const Rule = z.strictObject({
  description: z.string().optional(),
  endpointSelector: LabelSelector.optional(),
  enableDefaultDeny: z
    .strictObject({ ingress: z.boolean().optional(), egress: z.boolean().optional() })
    .optional(),
  ingress: z.array(z.strictObject({ ...ingressPeers, toPorts: z.array(AllowedPorts).optional() })).optional(),
  ingressDeny: z
    .array(z.strictObject({ ...ingressPeers, toPorts: z.array(DeniedPorts).optional() }))
    .optional(),
  egress: z
    .array(
      z.strictObject({
        ...egressPeers,
        toFQDNs: z.array(NameSelector).optional(),
        toPorts: z.array(AllowedPorts).optional(),
      }),
    )
    .optional(),
  egressDeny: z
    .array(z.strictObject({ ...egressPeers, toPorts: z.array(DeniedPorts).optional() }))
    .optional(),
})
export type CiliumRule = z.infer<typeof Rule>
export type CiliumPort = z.infer<typeof Port>
export type CiliumPorts = z.infer<typeof AllowedPorts>

export const CiliumObject = z.object({ spec: Rule.optional(), specs: z.array(Rule).optional() })

/**
 * One entry of `ingress`, `ingressDeny`, `egress` or `egressDeny`, with field names that do not depend on the
 * direction.
 */
export interface CiliumEntry {
  readonly endpoints: readonly LabelSelector[] | undefined
  readonly entities: readonly string[] | undefined
  readonly cidrs: readonly string[] | undefined
  readonly cidrSet: readonly z.infer<typeof CidrRule>[] | undefined
  readonly names: readonly NameSelector[] | undefined
  readonly toPorts: readonly CiliumPorts[]
}

type IngressEntry = NonNullable<CiliumRule['ingress']>[number]
type EgressEntry = NonNullable<CiliumRule['egress']>[number]

export const fromIngress = (entry: IngressEntry): CiliumEntry => ({
  endpoints: entry.fromEndpoints,
  entities: entry.fromEntities,
  cidrs: entry.fromCIDR,
  cidrSet: entry.fromCIDRSet,
  names: undefined,
  toPorts: entry.toPorts ?? [],
})

export const fromEgress = (entry: EgressEntry): CiliumEntry => ({
  endpoints: entry.toEndpoints,
  entities: entry.toEntities,
  cidrs: entry.toCIDR,
  cidrSet: entry.toCIDRSet,
  names: entry.toFQDNs,
  toPorts: entry.toPorts ?? [],
})
