import type { FastifyInstance, FastifyRequest } from 'fastify'
import { equalsInConstantTime } from '../kit/constant-time.ts'
import { SandboxError } from '../kit/errors.ts'
import type { Door } from './door.ts'
import type { HostStateMachine, Taken } from './state.ts'

/** The token of an RFC 6750 `Authorization` header, or undefined where it is absent, malformed or there twice. */
export function bearerOf(request: FastifyRequest): string | undefined {
  if (timesSent(request, 'authorization') !== 1) return undefined
  return /^Bearer ([A-Za-z0-9._~+/-]+=*)$/i.exec(request.headers.authorization ?? '')?.[1]
}

/** How often a header was sent. Node keeps the first of some and forgets the others. */
function timesSent({ raw }: FastifyRequest, name: string): number {
  return raw.rawHeaders.filter((field, index) => index % 2 === 0 && field.toLowerCase() === name).length
}

/** A request with two hosts is one for each of two readers (RFC 9112, 3.2). */
export function refuseTwoHosts(app: FastifyInstance): void {
  app.addHook('onRequest', async (request) => {
    if (timesSent(request, 'host') > 1) throw new SandboxError('invalid_request', 'there are two hosts')
  })
}

/** Routes that serve a run before its setup is complete. */
const SERVES_SETUP = new Set(['PUT /session'])

/**
 * Guards a whole scope with the run's bearer: before configuration every route in it answers 503, afterwards
 * every request must carry the one token.
 */
export function guardWithBearer(scope: FastifyInstance, machine: HostStateMachine, door: Door): void {
  scope.addHook('onRequest', async (request) => {
    const { status } = machine
    if (status.state === 'starting' || status.state === 'standby') {
      throw new SandboxError('not_configured', 'AgentHost has no run')
    }
    assertBearer(request, 'taken' in status ? status.taken : undefined)
    door.know(request.raw.socket)
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
