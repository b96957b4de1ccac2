import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { Diagnostics } from '../../../contracts/diagnostics.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, problems } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

/** The state of the deployment. */
export const diagnosticRoutes: FastifyPluginAsyncZod<Pick<RouteDeps, 'service'>> = async (
  app,
  { service },
) => {
  const schema = {
    ...GUARDED,
    tags: ['service'],
    operationId: 'getDiagnostics',
    summary: 'Read the state of the deployment: replicas, store, pools, queue, open requests, overdue work',
    response: { 200: Diagnostics, ...problems(403) },
  }
  app.get('', { schema }, async (request) => service.readDiagnostics(callerOf(request)))
}
