import * as z from 'zod'

const Tokens = z.int().nonnegative()

/** The most tokens that a request to a model may use. The proxy chooses the id, so that it can release a reservation although the API did not respond. */
export const ModelReservation = z.strictObject({ id: z.guid(), tokens: Tokens })
export type ModelReservation = z.infer<typeof ModelReservation>

/** Body of `POST /internal/egress/reservations`. */
export const ReservationRequest = z.strictObject({
  runId: z.string().min(1).max(128),
  generation: z.int().nonnegative(),
  reservation: ModelReservation,
})
export type ReservationRequest = z.infer<typeof ReservationRequest>

/** The budget that a request to a model does not fit into. */
export const BudgetRefusal = z.strictObject({
  kind: z.enum(['tokens', 'model_requests']),
  limit: Tokens,
  used: Tokens,
  /** By requests whose answer has not ended. */
  reserved: Tokens,
  wanted: Tokens,
  /** The request does not fit even if the requests before it use nothing, so the run has ended. */
  isFinal: z.boolean(),
})
export type BudgetRefusal = z.infer<typeof BudgetRefusal>

export const ReservationDecision = z.union([
  z.strictObject({ ok: z.literal(true) }),
  /** Without a refusal, the run has ended. */
  z.strictObject({ ok: z.literal(false), refusal: BudgetRefusal.optional() }),
])
export type ReservationDecision = z.infer<typeof ReservationDecision>

/** The use of one request to a model. */
export const ModelUse = z.strictObject({
  /** The reservation that ends. Absent for a run without a budget. */
  reservation: z.guid().optional(),
  /** 0 for a request that the server did not get, or refused. */
  requests: z.int().min(0).max(1),
  tokens: Tokens,
})
export type ModelUse = z.infer<typeof ModelUse>

/** Body of `POST /internal/egress/shares`: a replica of the proxy needs a share of the bytes that a run may send and receive. */
export const ShareRequest = z.strictObject({
  runId: z.string().min(1).max(128),
  generation: z.int().nonnegative(),
  /** Bytes that have passed without a share. */
  missing: z.int().nonnegative(),
})
export type ShareRequest = z.infer<typeof ShareRequest>

export const ShareDecision = z.strictObject({
  granted: z.int().nonnegative(),
  /** Nothing is left for another share. */
  isLast: z.boolean(),
})
export type ShareDecision = z.infer<typeof ShareDecision>

/** The end of all shares that a replica has taken for a sandbox. */
export const SettledShares = z.strictObject({
  /** Bytes of the shares that did not pass. Less than 0 if more has passed. */
  unused: z.int(),
})
export type SettledShares = z.infer<typeof SettledShares>
