import * as z from 'zod'

/**
 * DNS is not an allowed port: names are resolved by the cluster's resolver, which enforces the allowlist. An external
 * resolver would bypass it.
 */
const LOOKUP_PORTS = [53, 853]

/** Metadata services and addresses that are no single host are refused when they are dialled. */
export const Range = z.union(
  [z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()],
  'must be an address or a range such as 10.1.0.0/16',
)

export const Port = z
  .int()
  .min(1)
  .max(65_535)
  .refine(
    (port) => !LOOKUP_PORTS.includes(port),
    'is a port of resolvers; names are looked up in the cluster',
  )

/** For all hosts of the entry together. The proxy counts in each of its processes. */
export const MaxSentMiB = z.int().min(1).max(65_536)

export const Why = z.string().min(10).max(200)
