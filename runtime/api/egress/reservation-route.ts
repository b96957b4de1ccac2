import type { FastifyInstance } from 'fastify'
import { ReservationRequest } from '../../../contracts/egress-budgets.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { refuse } from './control-callers.ts'
import type { ModelBudgets } from './model-budgets.ts'

/** `POST /internal/egress/reservations`: a part of a run's budgets, for one request to its model. */
export function registerReservationRoute(app: FastifyInstance, budgets: Pick<ModelBudgets, 'reserve'>): void {
  app.post(EGRESS_CONTROL_ROUTES.reservations, async (request, reply) => {
    const wanted = ReservationRequest.safeParse(request.body)
    if (!wanted.success) return refuse(reply, 400, 'The request is malformed.')
    return reply.send(await budgets.reserve(wanted.data))
  })
}
