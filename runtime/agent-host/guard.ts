import type { FastifyInstance, FastifyRequest } from 'fastify'
import { equalsInConstantTime } from '../kit/constant-time.ts'
import { SandboxError } from '../kit/errors.ts'
import type { ConnectionLimiter } from './connection-limiter.ts'
import type { HostStateMachine, Taken } from './state.ts'

/** The token of an RFC 6750 `Authorization` header. Undefined if the header is absent, malformed or duplicated. */
export function bearerOf(request: FastifyRequest): string | undefined {
  if (timesSent(request, 'authorization') !== 1) return undefined
  return /^Bearer ([A-Za-z0-9._~+/-]+=*)$/i.exec(request.headers.authorization ?? '')?.[1]
}

/** How often a header was sent. Node keeps only the first value of some headers, so the raw headers are counted. */
function timesSent({ raw }: FastifyRequest, name: string): number {
  return raw.rawHeaders.filter((field, index) => index % 2 === 0 && field.toLowerCase() === name).length
}

/** Two parsers may pick different `Host` headers of one request, so a duplicate is rejected (RFC 9112, 3.2). */
export function refuseDuplicateHost(app: FastifyInstance): void {
  app.addHook('onRequest', async (request) => {
    if (timesSent(request, 'host') > 1) throw new SandboxError('invalid_request', 'more than one Host header')
  })
}

/** Routes that are served while the setup is still running. */
const SERVES_SETUP = new Set(['PUT /session'])

/**
 * Protects every route of a scope with the run's bearer token. Before configuration each route returns 503; afterwards
 * each request must carry the token.
 */
export function guardWithBearer(
  scope: FastifyInstance,
  machine: HostStateMachine,
  limiter: ConnectionLimiter,
): void {
  scope.addHook('onRequest', async (request) => {
    const { status } = machine
    if (status.state === 'starting' || status.state === 'standby') {
      throw new SandboxError('not_configured', 'AgentHost has no run')
    }
    assertBearer(request, 'taken' in status ? status.taken : undefined)
    limiter.authenticate(request.raw.socket)
    const route = `${request.method} ${request.routeOptions.url}`
    if (status.state === 'configuring' && !SERVES_SETUP.has(route)) {
      throw new SandboxError('not_configured', 'AgentHost is being configured')
    }
    if ('reason' in status) throw new SandboxError('sandbox_lost', status.reason)
  })
}

function assertBearer(request: FastifyRequest, taken: Taken | undefined): void {
  const token = bearerOf(request)
  if (taken === undefined || token === undefined || !equalsInConstantTime(token, taken.turnBearerToken)) {
    throw new SandboxError('unauthenticated', "the run's bearer is required")
  }
}
