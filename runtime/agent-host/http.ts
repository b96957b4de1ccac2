import { STATUS_CODES } from 'node:http'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { ERROR_STATUS, type ErrorCode, PROBLEM_MEDIA_TYPE, type Problem } from '../../contracts/errors.ts'
import { SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import { fieldProblems } from '../kit/parse-env.ts'

/** The setup failed. The status is always 422, and the sandbox cannot be used again. */
export class SpentError extends SandboxError {}

type Fault = {
  readonly code: ErrorCode
  readonly detail: string
  /** @default the status of the code */
  readonly status?: number
  readonly errors?: Problem['errors']
}

/** Maps an error of Fastify itself (body too large, bad media type, bad JSON) to an error code. */
function fastifyFault(error: unknown): Fault {
  const status =
    typeof error === 'object' && error !== null && 'statusCode' in error ? Number(error.statusCode) : 500
  const detail = error instanceof Error ? error.message : 'malformed request'
  if (status === 413) return { code: 'payload_too_large', detail }
  if (status >= 400 && status < 500) return { code: 'invalid_request', detail }
  return { code: 'internal', detail: 'AgentHost failed; its log has the cause' }
}

function faultOf(error: unknown): Fault {
  if (error instanceof z.ZodError) {
    const errors = fieldProblems(error)
    const fields = errors.map(({ field, message }) => `${field || 'body'}: ${message}`).join('; ')
    return { code: 'invalid_request', detail: fields, errors }
  }
  if (error instanceof SpentError) {
    return { code: error.code, detail: error.message, status: ERROR_STATUS.configure_failed }
  }
  if (error instanceof SandboxError) return { code: error.code, detail: error.message }
  return fastifyFault(error)
}

/** Sends every error as problem details with a stable code. The cause goes to the log only. */
export function registerErrorHandling(app: FastifyInstance, log: Log): void {
  const problem = (fault: Fault, requestId: string): Problem => {
    const { status = ERROR_STATUS[fault.code] } = fault
    return {
      type: 'about:blank',
      title: STATUS_CODES[status] ?? 'Error',
      status,
      code: fault.code,
      detail: fault.detail,
      requestId,
      ...(fault.errors && { errors: fault.errors }),
    }
  }
  app.setErrorHandler((error, request, reply) => {
    const body = problem(faultOf(error), request.id)
    // Expected rejections are logged at debug level: any client on the network can cause them and flood the log.
    const isUnexpected = body.status >= 500 && !(error instanceof SandboxError)
    log[isUnexpected ? 'error' : 'debug']('request failed', { error, route: request.routeOptions.url })
    if (body.status === 401) reply.header('www-authenticate', 'Bearer')
    return reply.code(body.status).type(PROBLEM_MEDIA_TYPE).send(body)
  })
  app.setNotFoundHandler((request, reply) => {
    const body = problem({ code: 'not_found', detail: 'AgentHost has no such route' }, request.id)
    return reply.code(404).type(PROBLEM_MEDIA_TYPE).send(body)
  })
}
