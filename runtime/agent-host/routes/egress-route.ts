import type { FastifyInstance } from 'fastify'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import type { RunSession } from '../session/run-session.ts'

/** `PUT /egress`: gives the agent and its commands their access to the egress proxy, or renews it. */
export function registerEgressRoute(scope: FastifyInstance, session: () => RunSession): void {
  scope.put(AGENT_HOST_ROUTES.egress, async (request, reply) => {
    const { EgressGrant } = await import('../../../contracts/egress-control.ts')
    await session().giveEgress(EgressGrant.parse(request.body))
    return reply.code(204).send()
  })
}
