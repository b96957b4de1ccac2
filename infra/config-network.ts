import * as z from 'zod'
import { parseCidr } from './model/cidr.ts'

export const Cidr = z
  .string()
  .refine(
    (text) => parseCidr(text) !== undefined,
    'must be an IPv4 range such as 10.40.0.0/16, no bits beyond it',
  )
export const Label = z
  .string()
  .max(63)
  .regex(/^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/, 'must be lower-case letters, digits and "-"')
export const Zones = z
  .array(z.enum(['1', '2', '3']))
  .min(1)
  .refine((zones) => new Set(zones).size === zones.length, 'must name each zone once')

const VirtualNetworkId = z
  .string()
  .regex(
    /^\/subscriptions\/[0-9a-f-]{36}\/resourceGroups\/[\w.()-]{1,90}\/providers\/Microsoft\.Network\/virtualNetworks\/[\w.-]{2,64}$/,
    'must be the full id of one Microsoft.Network virtual network',
  )
const SubnetName = z.string().regex(/^\w[\w.-]{0,79}$/, 'must be the name of a subnet')

/** A subnet of our network for machines that run this program: they reach the API server from there. */
const Runners = z.strictObject({
  cidr: Cidr,
  /** `github` delegates it, for runners that GitHub hosts inside a network of their user. */
  host: z.enum(['own', 'github']).default('own'),
})

/** Another network that is peered with the platform's. Its owner creates the same peering from the other side. */
const Peering = z.strictObject({
  name: Label,
  virtualNetworkId: VirtualNetworkId,
  /** Its ranges: they reach the API server, and no node. */
  ranges: z.array(Cidr).min(1).max(20),
})

/** An existing network that the program does not change. Its requirements are in docs/private-cluster.md. */
const ExistingNetwork = z.strictObject({
  virtualNetworkId: VirtualNetworkId,
  subnets: z.strictObject({
    nodes: SubnetName,
    apiServer: SubnetName,
    database: SubnetName,
    endpoints: SubnetName,
  }),
})

/** The section `network`. */
export const Network = z.strictObject({
  /** No range can change after the cluster is created. */
  vnetCidr: Cidr.default('10.40.0.0/16'),
  nodeCidr: Cidr.default('10.40.0.0/22'),
  apiServerCidr: Cidr.default('10.40.4.0/28'),
  databaseCidr: Cidr.default('10.40.5.0/28'),
  endpointCidr: Cidr.default('10.40.6.0/26'),
  podCidr: Cidr.default('10.244.0.0/16'),
  serviceCidr: Cidr.default('10.0.0.0/16'),
  /** Zones of the address that everything leaves by. */
  egressZones: Zones.default(['1', '2', '3']),
  runners: Runners.optional(),
  peerings: z.array(Peering).max(20).default([]),
  /** Immutable. */
  existing: ExistingNetwork.optional(),
})
