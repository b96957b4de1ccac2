import * as z from 'zod'
import { RequestedKind } from './agents.ts'

/** A kind of agent with one of its models, as `POST /api/runs` would admit it for the caller. */
export const OfferedModel = z.strictObject({
  kind: RequestedKind,
  /** Absent for kinds without a model, and where a run may name any model of the server. */
  model: z.string().min(1).max(256).optional(),
  /** A run with this agent can start now. */
  usable: z.boolean(),
  /** The agent of a run that names none. At most one item has it. */
  default: z.boolean(),
  /** Why a run cannot start, and what to do. Absent if it can. */
  reason: z.string().optional(),
})
export type OfferedModel = z.infer<typeof OfferedModel>

export const ModelList = z.strictObject({ items: z.array(OfferedModel) })
export type ModelList = z.infer<typeof ModelList>
