import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { Store } from '../../store/store.ts'
import { keyProblem } from '../people/key-state.ts'
import { refuseChanges } from '../people/rights.ts'
import type { SignIn } from '../people/sign-in.ts'
import type { Caller } from '../runs/service.ts'
import { findApiKey, isApiKey } from './api-key.ts'
import type { Credential } from './credential.ts'
import { createKeyUses } from './key-uses.ts'
import { InvalidRequest } from './problem.ts'
import { traceparentOf } from './request-traces.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null outside the guarded routes. */
    credential: Credential | null
  }
}

const CHALLENGE = 'Bearer realm="agentweaver"'

type Deps = {
  readonly store: Pick<Store, 'readApiKey' | 'noteApiKeyUse'>
  readonly log: Log
  readonly now: () => Date
  /** Absent if API keys are the only credentials. */
  readonly signIn?: SignIn | undefined
}

/** Requires a valid credential on every route of this scope, before any other processing. */
export function guardRoutes(scope: FastifyInstance, deps: Deps): void {
  const limitFailures = scope.createRateLimit({ keyGenerator: ({ ip }) => `failed ${ip}` })
  const check = createCheck(deps)
  scope.addHook('onRequest', async (request, reply) => {
    try {
      request.credential = await check(readToken(request, reply))
    } catch (error) {
      const limit = await limitFailures(request)
      if (!limit.isAllowed && limit.isExceeded) throw tooManyFailures(reply, limit.ttlInSeconds)
      if (
        error instanceof SandboxError &&
        error.code === 'unauthenticated' &&
        !reply.hasHeader('www-authenticate')
      )
        reply.header('www-authenticate', `${CHALLENGE}, error="invalid_token"`)
      throw error
    }
    refuseChanges(request.credential.caller, request.method)
  })
}

/** RFC 6750: a bare challenge without a bearer token, and 400 for a malformed header. */
function readToken(request: FastifyRequest, reply: FastifyReply): string {
  const header = request.headers.authorization
  if (header === undefined || !/^bearer(?: |$)/i.test(header)) {
    reply.header('www-authenticate', CHALLENGE)
    throw new SandboxError('unauthenticated', 'Send `Authorization: Bearer <API key or access token>`.')
  }
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(header)?.[1]
  if (token !== undefined) return token
  reply.header('www-authenticate', `${CHALLENGE}, error="invalid_request"`)
  throw new InvalidRequest('The authorization header is malformed.', [
    { field: 'authorization', message: 'must be `Bearer`, one space and one API key or access token' },
  ])
}

/** Reads a key from the store each time, so that a revocation in another process counts for the next request. */
function createCheck({ store, log, now, signIn }: Deps): (token: string) => Promise<Credential> {
  const noteUse = createKeyUses({ store, log, now })
  return async (token) => {
    if (signIn && !isApiKey(token)) {
      const { owner, role, issuer, isPerson, expiresAt } = await signIn.verify(token)
      return { caller: { owner, role, ...(isPerson && { signedInAt: issuer }) }, issuer, expiresAt }
    }
    const key = await findApiKey(store, token)
    if (!key) throw new SandboxError('unauthenticated', 'The API key is not valid.')
    const problem = keyProblem(key, now())
    if (problem !== undefined) throw new SandboxError('unauthenticated', problem)
    noteUse(key)
    const { id, owner, role, expiresAt } = key
    return {
      caller: { owner, role, apiKeyId: id },
      apiKeyId: id,
      ...(expiresAt !== undefined && { expiresAt: Date.parse(expiresAt) }),
    }
  }
}

function tooManyFailures(reply: FastifyReply, seconds: number): SandboxError {
  reply.removeHeader('www-authenticate').header('retry-after', String(seconds))
  return new SandboxError('rate_limited', 'Too many requests without a valid API key.')
}

export function callerOf(request: FastifyRequest): Caller {
  const { caller } = credentialOf(request)
  const traceparent = traceparentOf(request)
  return traceparent === undefined ? caller : { ...caller, traceparent }
}

export function credentialOf({ credential }: FastifyRequest): Credential {
  if (!credential) throw new TypeError('a route outside the guard asked for its caller')
  return credential
}
