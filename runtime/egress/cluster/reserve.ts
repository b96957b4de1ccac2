import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { ReservationDecision, type ReservationRequest } from '../../../contracts/egress-budgets.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { type ControlPlace, controlRequest } from './control-stream.ts'
import { answerText } from './fetch-credential.ts'

const RESERVE_MS = 10_000

/** Asks the API for a part of a run's budgets. The API alone knows what all replicas have used. */
export async function reserve(
  place: ControlPlace,
  request: ReservationRequest,
): Promise<ReservationDecision> {
  const body = JSON.stringify(request)
  const signal = AbortSignal.timeout(RESERVE_MS)
  const sent = await controlRequest(place, {
    path: EGRESS_CONTROL_ROUTES.reservations,
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
  })
  sent.end(body)
  const [response] = (await once(sent, 'response', { signal })) as [IncomingMessage]
  const text = await answerText(response)
  if (response.statusCode !== 200) throw new Error(`the API answered ${response.statusCode}`)
  return ReservationDecision.parse(JSON.parse(text))
}
