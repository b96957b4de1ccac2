import * as z from 'zod'

const Id = z.string().min(1).max(128)

/** The API's decision about one call. `pending` extends the wait for an approval; every other outcome is final. */
export const CallDecision = z.strictObject({
  callId: Id,
  outcome: z.enum(['release', 'denied', 'expired', 'superseded', 'policyDenied', 'answer', 'pending']),
  until: z.iso.datetime().optional(),
  reason: z.string().max(4000).optional(),
  /** The answer to a question. */
  value: z.string().max(65_536).optional(),
})
export type CallDecision = z.infer<typeof CallDecision>

export const DecisionsRequest = z.strictObject({
  /** Every event up to this sequence is committed, so AgentHost may drop them. */
  ackedThrough: z.int().nonnegative(),
  decisions: z.array(CallDecision).max(256).default([]),
})
export type DecisionsRequest = z.infer<typeof DecisionsRequest>

export const DecisionsReply = z.strictObject({
  accepted: z.array(Id),
  /** Calls that AgentHost has not made yet. It keeps their decisions. */
  unknown: z.array(Id),
  /** Calls that already have a different final outcome, which stays in force. */
  conflicting: z.array(Id),
})
export type DecisionsReply = z.infer<typeof DecisionsReply>
