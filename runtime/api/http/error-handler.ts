import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { PROBLEM_MEDIA_TYPE } from '../../../contracts/errors.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { toProblem } from './problem.ts'

/** Answers problem details for everything that is thrown; faults of ours go to the log with their cause. */
export function answerProblems(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error, request, reply) => sendProblem(error, { request, reply, log }))
}

/** Probing for routes is an attack: it is counted like other requests, by address. Needs the rate limit plugin. */
export function answerUnknownRoutes(app: FastifyInstance, log: Log): void {
  app.setNotFoundHandler({ preHandler: app.rateLimit() }, (request, reply) => {
    const error = new SandboxError('not_found', `There is no ${request.method} ${pathOf(request)}`)
    return sendProblem(error, { request, reply, log })
  })
}

export function sendProblem(
  error: unknown,
  { request, reply, log }: { request: FastifyRequest; reply: FastifyReply; log: Log },
): FastifyReply {
  const problem = toProblem(error, request.id)
  if (problem.status >= 500) {
    log.error('a request failed', { requestId: request.id, route: request.routeOptions.url, error })
  }
  if (problem.code === 'idempotency_unfinished' || problem.code === 'unavailable') {
    reply.header('retry-after', '1')
  }
  return reply.code(problem.status).type(PROBLEM_MEDIA_TYPE).send(JSON.stringify(problem))
}

/** Without the query, where a caller may have put anything. */
const pathOf = (request: FastifyRequest): string => request.url.split('?', 1)[0] ?? '/'
