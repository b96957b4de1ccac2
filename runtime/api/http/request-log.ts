import type { FastifyInstance } from 'fastify'
import type { Log } from '../../kit/log.ts'

export const REQUEST_ID_HEADER = 'x-request-id'

/** Logs one line per response, with the pattern of the route. The URL may contain a secret in its query or in a file name. */
export function logRequests(app: FastifyInstance, log: Log): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header(REQUEST_ID_HEADER, request.id)
  })
  app.addHook('onResponse', async (request, reply) => {
    log.debug('request completed', {
      requestId: request.id,
      method: request.method,
      route: request.routeOptions.url ?? '(none)',
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime),
      owner: request.credential?.caller.owner,
    })
  })
}
