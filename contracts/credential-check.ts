import * as z from 'zod'
import { EgressDestination, ModelRoute } from './egress.ts'

/** One cheap request that shows whether a server accepts a credential. It does not contain the value. */
export const CredentialCheckPlan = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('host'),
    /** A single host and port. */
    destination: EgressDestination,
    path: z.string().startsWith('/').max(1024),
    /** The user of Basic authentication. Without it, the value is a bearer token. */
    user: z.string().max(128).optional(),
    /** Asks once without the value first. If that succeeds, the request does not show whether the value is accepted. */
    isPublicPossible: z.boolean(),
  }),
  /** Asks the model server for its models. */
  z.strictObject({ kind: z.literal('model'), route: ModelRoute }),
])
export type CredentialCheckPlan = z.infer<typeof CredentialCheckPlan>

/** The result of a check. */
export const CredentialVerdict = z.discriminatedUnion('verdict', [
  z.strictObject({ verdict: z.literal('accepted') }),
  /** The server does not accept the value. */
  z.strictObject({ verdict: z.literal('refused'), status: z.int().min(400).max(499) }),
  z.strictObject({ verdict: z.literal('unchecked'), reason: z.string().min(1).max(1000) }),
])
export type CredentialVerdict = z.infer<typeof CredentialVerdict>

export const CREDENTIAL_CHECK = {
  /** How long the owner of a credential waits for the result. */
  waitMs: 15_000,
  /** How long a replica of the egress proxy tries. It is shorter, so that its reason arrives in time. */
  replicaMs: 12_000,
} as const
