import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type * as z from 'zod'
import {
  ReservationDecision,
  type ReservationRequest,
  ShareDecision,
  type ShareRequest,
} from '../../../contracts/egress-budgets.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { type ControlPlace, controlRequest } from './control-stream.ts'
import { answerText } from './fetch-credential.ts'

const POST_MS = 10_000

/** Asks the API for a part of a run's budgets. The API alone knows what all replicas have used. */
export const reserve = (place: ControlPlace, request: ReservationRequest): Promise<ReservationDecision> =>
  post(place, { path: EGRESS_CONTROL_ROUTES.reservations, request, decision: ReservationDecision })

/** Asks the API for a share of the bytes that a run may send and receive. */
export const takeShare = (place: ControlPlace, request: ShareRequest): Promise<ShareDecision> =>
  post(place, { path: EGRESS_CONTROL_ROUTES.shares, request, decision: ShareDecision })

async function post<Decision extends z.ZodType>(
  place: ControlPlace,
  {
    path,
    request,
    decision,
  }: { readonly path: string; readonly request: object; readonly decision: Decision },
): Promise<z.infer<Decision>> {
  const body = JSON.stringify(request)
  const signal = AbortSignal.timeout(POST_MS)
  const sent = await controlRequest(place, {
    path,
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
  })
  sent.end(body)
  const [response] = (await once(sent, 'response', { signal })) as [IncomingMessage]
  const text = await answerText(response)
  if (response.statusCode !== 200) throw new Error(`the API answered ${response.statusCode}`)
  return decision.parse(JSON.parse(text))
}
