import type { FastifyInstance } from 'fastify'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import type { Outbox } from '../outbox.ts'
import type { DecisionTable } from './decision-table.ts'

/** `POST /decisions`: acknowledges committed events and settles calls that wait. */
export function registerDecisionsRoute(
  scope: FastifyInstance,
  outbox: Outbox,
  decisions: DecisionTable,
): void {
  scope.post(AGENT_HOST_ROUTES.decisions, async (request) => {
    const { DecisionsRequest } = await import('../../../contracts/decisions.ts')
    const body = DecisionsRequest.parse(request.body)
    outbox.acknowledge(body.ackedThrough)
    return decisions.decide(body.decisions)
  })
}
