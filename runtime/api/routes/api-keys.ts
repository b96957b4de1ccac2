import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { PageQuery } from '../../../contracts/api.ts'
import {
  ApiKeyPage,
  CreateApiKey,
  CreatedApiKey,
  KeyId,
  Me,
  RevokedApiKey,
} from '../../../contracts/api-keys.ts'
import { SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import { credentialOf } from '../http/authenticate.ts'
import { GUARDED, MutationHeaders, problems } from '../http/schemas.ts'
import type { KeyService } from '../people/api-keys.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['keys'] }
const KeyParams = z.object({ keyId: KeyId })

/** Who the caller is. */
export const meRoutes: FastifyPluginAsyncZod = async (app) => {
  const meSchema = {
    ...schema,
    operationId: 'readMe',
    summary: 'Show the owner and the role of the credential of this request, and when it expires',
    response: { 200: Me, ...problems() },
  }
  app.get('', { schema: meSchema }, async (request) => {
    const { caller, apiKeyId, issuer, expiresAt } = credentialOf(request)
    const { owner, role } = caller
    const until = expiresAt === undefined ? undefined : new Date(expiresAt).toISOString()
    return { owner, role, ...present({ keyId: apiKeyId, issuer, expiresAt: until }) }
  })
}

export const apiKeyRoutes: FastifyPluginAsyncZod<RouteDeps & { readonly keys: KeyService }> = async (
  app,
  { keys, once },
) => {
  const createSchema = {
    ...schema,
    operationId: 'createApiKey',
    summary: 'Create an API key; only this response has the secret',
    headers: MutationHeaders,
    body: CreateApiKey,
    response: { 201: CreatedApiKey, ...problems(403, 409, 415) },
  }
  app.post('', { schema: createSchema }, async (request, reply) => {
    let secret: string | undefined
    reply.code(201)
    // The secret is not stored under the idempotency key.
    const created = await once(request, reply, async (caller) => {
      const { key, ...view } = await keys.create(caller, request.body)
      secret = key
      return view
    })
    if (secret !== undefined) return reply.send({ ...created, key: secret })
    throw new SandboxError(
      'conflict',
      `An earlier request with this idempotency key created the key ${created.id}. Its secret was in that response only. If you do not have it, revoke ${created.id} and create another key.`,
    )
  })

  const listSchema = {
    ...schema,
    operationId: 'listApiKeys',
    summary: 'List API keys without their secrets, newest first',
    querystring: PageQuery,
    response: { 200: ApiKeyPage, ...problems() },
  }
  app.get('', { schema: listSchema }, async (request) =>
    keys.list(credentialOf(request).caller, request.query),
  )

  const revokeSchema = {
    ...schema,
    operationId: 'revokeApiKey',
    summary:
      'Revoke an API key; requests with it are refused from now on, and its streams end within a second',
    headers: MutationHeaders,
    params: KeyParams,
    response: { 200: RevokedApiKey, ...problems(403, 404, 409) },
  }
  app.delete('/:keyId', { schema: revokeSchema }, async (request, reply) =>
    once(request, reply, (caller) => keys.revoke(caller, request.params.keyId)),
  )
}
