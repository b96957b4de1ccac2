import type { FastifyInstance } from 'fastify'
import { ReservationRequest, ShareRequest } from '../../../contracts/egress-budgets.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import type { ByteShares } from './byte-shares.ts'
import { refuse } from './control-callers.ts'
import type { ModelBudgets } from './model-budgets.ts'

export interface BudgetRouteOptions {
  readonly budgets: Pick<ModelBudgets, 'reserve'>
  readonly shares: Pick<ByteShares, 'take'>
}

const MALFORMED = 'The request is malformed.'

/**
 * Parts of a run's budgets for one replica of the proxy: `POST /internal/egress/reservations` for one request to the model,
 * and `POST /internal/egress/shares` for the next bytes.
 */
export function registerBudgetRoutes(app: FastifyInstance, { budgets, shares }: BudgetRouteOptions): void {
  app.post(EGRESS_CONTROL_ROUTES.reservations, async (request, reply) => {
    const wanted = ReservationRequest.safeParse(request.body)
    if (!wanted.success) return refuse(reply, 400, MALFORMED)
    return reply.send(await budgets.reserve(wanted.data))
  })
  app.post(EGRESS_CONTROL_ROUTES.shares, async (request, reply) => {
    const wanted = ShareRequest.safeParse(request.body)
    if (!wanted.success) return refuse(reply, 400, MALFORMED)
    return reply.send(await shares.take(wanted.data))
  })
}
