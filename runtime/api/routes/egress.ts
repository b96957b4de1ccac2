import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { AllowEgress, AllowedEgress, RunEgress } from '../../../contracts/run-egress.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, MutationHeaders, problems, RunParams } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

/** The destinations that a run may reach through the egress proxy, and its connections. */
export const egressRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  const readSchema = {
    ...GUARDED,
    tags: ['events'],
    operationId: 'getRunEgress',
    summary: 'Read what the egress proxy refused to a run, grouped, and the hosts that the run reached',
    params: RunParams,
    querystring: z.strictObject({}),
    response: { 200: RunEgress, ...problems(404) },
  }
  app.get('/:id/egress', { schema: readSchema }, async (request) =>
    service.readEgress(callerOf(request), request.params.id),
  )

  const allowSchema = {
    ...GUARDED,
    tags: ['decisions'],
    operationId: 'allowRunEgress',
    summary: "Allow a run one host of the operator's egress list that its settings leave out",
    headers: MutationHeaders,
    params: RunParams,
    body: AllowEgress,
    response: { 200: AllowedEgress, ...problems(403, 404, 409, 415) },
  }
  app.post('/:id/egress/allowed-hosts', { schema: allowSchema }, async (request, reply) =>
    once(request, reply, (caller) => service.allowEgress(caller, request.params.id, request.body)),
  )
}
