import type { FastifyInstance } from 'fastify'
import type { Log } from '../../kit/log.ts'

export const REQUEST_ID_HEADER = 'x-request-id'

/** One line per answer. The route's pattern, never the URL: a query or a file name may hold anything. */
export function logRequests(app: FastifyInstance, log: Log): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header(REQUEST_ID_HEADER, request.id)
  })
  app.addHook('onResponse', async (request, reply) => {
    log.debug('answered', {
      requestId: request.id,
      method: request.method,
      route: request.routeOptions.url ?? '(none)',
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime),
      owner: request.credential?.caller.owner,
    })
  })
}
