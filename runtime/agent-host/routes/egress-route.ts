import type { FastifyInstance } from 'fastify'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import type { RunnerLink } from '../toolbox/runner-link.ts'

/** `PUT /egress`: gives commands their access to the egress proxy, or renews it. */
export function registerEgressRoute(scope: FastifyInstance, toolbox: () => RunnerLink): void {
  scope.put(AGENT_HOST_ROUTES.egress, async (request, reply) => {
    const { EgressAccess } = await import('../../../contracts/egress-control.ts')
    await toolbox().giveEgress(EgressAccess.parse(request.body))
    return reply.code(204).send()
  })
}
