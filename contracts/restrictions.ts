import * as z from 'zod'
import { ApiRole } from './api-keys.ts'

/**
 * How far a run is restricted. `read-only`: file tools only read, and commands reach the network with GET and HEAD only.
 * `no-network`: commands have no network. `frozen`: nothing new starts, and running commands are stopped until they may
 * continue.
 */
export const RestrictionLevel = z.enum(['normal', 'read-only', 'no-network', 'frozen'])
export type RestrictionLevel = z.infer<typeof RestrictionLevel>

/** The runs that a restriction applies to, including those that start later. */
export const RestrictionScope = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('run'), id: z.string().regex(/^(?:run|sbx)_[0-9a-f]{32}$/) }),
  z.strictObject({ kind: z.literal('owner'), owner: z.string().min(1).max(256) }),
  z.strictObject({ kind: z.literal('all') }),
])
export type RestrictionScope = z.infer<typeof RestrictionScope>

/** Restricts runs, or lifts the restriction of the same scope with the level `normal`. */
export const SetRestriction = z.strictObject({
  scope: RestrictionScope,
  level: RestrictionLevel,
  /** For the audit record, and for the owners of the runs. */
  reason: z
    .string()
    .max(1000)
    .refine((text) => text.trim() !== '', 'must not be empty'),
})
export type SetRestriction = z.infer<typeof SetRestriction>

export const Restriction = z.object({
  scope: RestrictionScope,
  level: RestrictionLevel,
  reason: z.string(),
  /** Owner of the API key that set it. */
  by: z.string(),
  /** Only an operator can change a restriction that an operator has set. */
  role: ApiRole,
  at: z.iso.datetime(),
})
export type Restriction = z.infer<typeof Restriction>
export const RestrictionList = z.object({ items: z.array(Restriction) })
export type RestrictionList = z.infer<typeof RestrictionList>
