import * as z from 'zod'
import type { SandboxKind } from '../../../contracts/names.ts'
import { RunPhase } from '../../../contracts/policy.ts'
import { hostFault } from './host.ts'
import { isWrittenAsPlaceholder, PLACEHOLDERS, placeholderOf } from './placeholders.ts'

const READING = ['GET', 'HEAD'] as const
export const Method = z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/**
 * DNS is not an allowed port: names are resolved by the cluster's resolver, which enforces the allowlist. An external
 * resolver would bypass it.
 */
const LOOKUP_PORTS = [53, 853]

const Host = z.string().superRefine((host, context) => {
  const fault = isWrittenAsPlaceholder(host) ? placeholderFault(host) : hostFault(host)
  if (fault !== undefined) context.addIssue({ code: 'custom', message: fault })
})

function placeholderFault(host: string): string | undefined {
  if (placeholderOf(host) !== undefined) return undefined
  const known = PLACEHOLDERS.map((name) => `\${${name}}`).join(', ')
  return `"${host}" is no placeholder; there are ${known}, each alone`
}

/** Metadata services and addresses that are no single host are refused when they are dialled. */
const Range = z.union(
  [z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()],
  'must be an address or a range such as 10.1.0.0/16',
)

const Port = z
  .int()
  .min(1)
  .max(65_535)
  .refine(
    (port) => !LOOKUP_PORTS.includes(port),
    'is a port of resolvers; names are looked up in the cluster',
  )

/** One destination that sandboxes may connect to, as written in the file. */
export const Destination = z
  .strictObject({
    host: Host,
    ports: z.array(Port).min(1).max(8),
    mode: z.enum(['read-only', 'full']),
    /** @default GET and HEAD if the mode is `read-only`, otherwise all */
    methods: z.array(Method).min(1).optional(),
    /** @default every phase */
    phases: z.array(RunPhase).min(1).optional(),
    /** @default any process of the sandbox */
    caller: z.literal('agent-host').optional(),
    fqdn: z.literal('allow').optional(),
    /** Includes the destination without its limits where the proxy cannot look into TLS. */
    splice: z.literal('allow').optional(),
    /** Allows HTTP without TLS. */
    http: z.literal('allow').optional(),
    /** Address ranges of a private endpoint. */
    addresses: z.array(Range).min(1).max(16).optional(),
    why: z.string().min(10).max(200),
  })
  .superRefine((destination, context) => {
    const { mode, methods = [], ports } = destination
    const writing = methods.filter((method) => !READING.some((reading) => reading === method))
    if (mode === 'read-only' && writing.length > 0)
      context.addIssue({ code: 'custom', path: ['methods'], message: `${writing.join(', ')} is not reading` })
    if (new Set(ports).size !== ports.length)
      context.addIssue({ code: 'custom', path: ['ports'], message: 'names a port twice' })
    for (const key of ['fqdn', 'splice'] as const)
      if (destination[key] === 'allow' && !isRestricted(destination))
        context.addIssue({
          code: 'custom',
          path: [key],
          message: 'changes nothing: nothing is restricted here',
        })
  })
export type Destination = z.infer<typeof Destination>

/** Whether a destination has restrictions other than its name and ports. */
export const isRestricted = ({ mode, methods, phases, caller }: Restrictions): boolean =>
  mode === 'read-only' || methods !== undefined || phases !== undefined || caller !== undefined

export interface Restrictions {
  readonly mode: 'read-only' | 'full'
  readonly methods?: readonly string[] | undefined
  readonly phases?: readonly string[] | undefined
  readonly caller?: string | undefined
}

const Destinations = z.array(Destination).superRefine((destinations, context) => {
  const seen = new Set<string>()
  for (const [index, { host, ports }] of destinations.entries()) {
    for (const port of ports) {
      const key = `${host}:${port}`
      if (seen.has(key))
        context.addIssue({ code: 'custom', path: [index, 'host'], message: `${key} is named a second time` })
      seen.add(key)
    }
  }
})

/** `policies/agent/egress.yaml`. */
export const EgressFile = z.strictObject({
  apiVersion: z.literal('agentweaver.io/v1'),
  kind: z.literal('EgressPolicy'),
  name: z.string().regex(/^[a-z][a-z0-9-]*$/),
  classes: z.strictObject({ agent: Destinations, command: Destinations } satisfies Record<
    SandboxKind,
    z.ZodType
  >),
})
export type EgressFile = z.infer<typeof EgressFile>
