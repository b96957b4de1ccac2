import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorCode, PROBLEM_MEDIA_TYPE } from '../../../contracts/errors.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { toProblem } from './problem.ts'

/** Returns problem details for every error. Server errors are logged with their cause. */
export function answerProblems(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error, request, reply) => sendProblem(error, { request, reply, log }))
}

/** Unknown routes count against the rate limit of the client's address, because scanners probe them. */
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
  const retryAfterSeconds = RETRY_AFTER_SECONDS[problem.code]
  if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds))
  return reply.code(problem.status).type(PROBLEM_MEDIA_TYPE).send(JSON.stringify(problem))
}

/** Seconds until a retry makes sense. A place in the queue becomes free only when another run starts. */
const RETRY_AFTER_SECONDS: Partial<Record<ErrorCode, number>> = {
  unavailable: 1,
  too_many_runs: 10,
  queue_full: 10,
  too_many_streams: 10,
  capacity_unavailable: 30,
}

/** Without the query, which may contain anything. */
const pathOf = (request: FastifyRequest): string => request.url.split('?', 1)[0] ?? '/'
