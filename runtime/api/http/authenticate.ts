import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'
import type { Store } from '../../store/store.ts'
import type { Caller } from '../runs/service.ts'
import { findApiKey } from './api-key.ts'
import { InvalidRequest } from './problem.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller and the id of its key. Null outside the guarded routes. */
    credential: { readonly caller: Caller; readonly keyId: string } | null
  }
}

const CHALLENGE = 'Bearer realm="agentweaver"'

/** Requires an API key on every route of this scope, before any other processing. */
export function guardWithApiKey(scope: FastifyInstance, store: Pick<Store, 'readApiKey'>): void {
  const limitFailures = scope.createRateLimit({ keyGenerator: ({ ip }) => `failed ${ip}` })
  scope.addHook('onRequest', async (request, reply) => {
    try {
      request.credential = await readCredential(store, request, reply)
    } catch (error) {
      const limit = await limitFailures(request)
      if (!limit.isAllowed && limit.isExceeded) throw tooManyFailures(reply, limit.ttlInSeconds)
      throw error
    }
  })
}

/** RFC 6750: a bare challenge without a bearer token, 400 for a malformed header, 401 for an unknown key. */
async function readCredential(
  store: Pick<Store, 'readApiKey'>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyRequest['credential']> {
  const header = request.headers.authorization
  if (header === undefined || !/^bearer(?: |$)/i.test(header)) {
    reply.header('www-authenticate', CHALLENGE)
    throw new SandboxError('unauthenticated', 'Send `Authorization: Bearer <API key>`.')
  }
  const key = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(header)?.[1]
  if (key === undefined) {
    reply.header('www-authenticate', `${CHALLENGE}, error="invalid_request"`)
    throw new InvalidRequest('The authorization header is malformed.', [
      { field: 'authorization', message: 'must be `Bearer`, one space and one API key' },
    ])
  }
  const row = await findApiKey(store, key)
  if (row) return { caller: { owner: row.owner, role: row.role }, keyId: row.id }
  reply.header('www-authenticate', `${CHALLENGE}, error="invalid_token"`)
  throw new SandboxError('unauthenticated', 'The API key is not valid.')
}

function tooManyFailures(reply: FastifyReply, seconds: number): SandboxError {
  reply.removeHeader('www-authenticate').header('retry-after', String(seconds))
  return new SandboxError('rate_limited', 'Too many requests without a valid API key.')
}

export function callerOf(request: FastifyRequest): Caller {
  if (!request.credential) throw new TypeError('a route outside the guard asked for its caller')
  return request.credential.caller
}
