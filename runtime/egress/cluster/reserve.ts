import type * as z from 'zod'
import {
  ReservationDecision,
  type ReservationRequest,
  ShareDecision,
  type ShareRequest,
} from '../../../contracts/egress-budgets.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { type ControlPlace, parseAnswer, postControl } from './control-request.ts'

const POST_MS = 10_000

/** Asks the API for a part of a run's budgets. The API alone knows what all replicas have used. */
export const reserve = (place: ControlPlace, sent: ReservationRequest): Promise<ReservationDecision> =>
  post(place, { path: EGRESS_CONTROL_ROUTES.reservations, sent, decision: ReservationDecision })

/** Asks the API for a share of the bytes that a run may send and receive. */
export const takeShare = (place: ControlPlace, sent: ShareRequest): Promise<ShareDecision> =>
  post(place, { path: EGRESS_CONTROL_ROUTES.shares, sent, decision: ShareDecision })

async function post<Decision extends z.ZodType>(
  place: ControlPlace,
  { path, sent, decision }: { readonly path: string; readonly sent: object; readonly decision: Decision },
): Promise<z.infer<Decision>> {
  const signal = AbortSignal.timeout(POST_MS)
  const { text } = await postControl(place, { path, sent, signal, expected: [200] })
  return parseAnswer(decision, text)
}
