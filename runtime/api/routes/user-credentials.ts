import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import {
  SetUserCredential,
  SetUserCredentialAnswer,
  UserCredential,
  UserCredentialKind,
  UserCredentialList,
  UserCredentialQuery,
} from '../../../contracts/user-credentials.ts'
import { present } from '../../kit/present.ts'
import type { CredentialCaller, UserCredentialService } from '../credentials/user-credential-service.ts'
import { credentialOf } from '../http/authenticate.ts'
import type { Credential } from '../http/credential.ts'
import { GUARDED, MutationHeaders, problems } from '../http/schemas.ts'
import type { Caller } from '../runs/service.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['credentials'] }
const KindParams = z.object({ kind: UserCredentialKind })

const withKey = (caller: Caller, { apiKeyId }: Credential): CredentialCaller => ({
  ...caller,
  ...present({ apiKeyId }),
})

export const userCredentialRoutes: FastifyPluginAsyncZod<
  Pick<RouteDeps, 'once'> & { readonly userCredentials: UserCredentialService }
> = async (app, { userCredentials, once }) => {
  const listSchema = {
    ...schema,
    operationId: 'listCredentials',
    summary: 'List the credentials of the caller, without their values',
    response: { 200: UserCredentialList, ...problems() },
  }
  app.get('', { schema: listSchema }, async (request) => userCredentials.list(credentialOf(request).caller))

  const setSchema = {
    ...schema,
    operationId: 'setCredential',
    summary:
      'Set a credential for the runs of the caller; no response contains its value. A value that its server rejects is not used; a vault keeps it in an old version until the data of the caller is erased',
    params: KindParams,
    body: SetUserCredential,
    response: { 200: SetUserCredentialAnswer, ...problems(403, 409, 415, 502, 503) },
  }
  // Without an idempotency key, which would store a digest of the value. A repeated request changes nothing.
  app.put('/:kind', { schema: setSchema }, async (request) => {
    const credential = credentialOf(request)
    return userCredentials.set(withKey(credential.caller, credential), request.params.kind, request.body)
  })

  const removeSchema = {
    ...schema,
    operationId: 'removeCredential',
    summary: 'Remove a credential; running runs do not use it from their next request on',
    headers: MutationHeaders,
    params: KindParams,
    querystring: UserCredentialQuery,
    response: { 200: UserCredential, ...problems(403, 404, 409, 502, 503) },
  }
  app.delete('/:kind', { schema: removeSchema }, async (request, reply) =>
    once(request, reply, (caller) =>
      userCredentials.remove(withKey(caller, credentialOf(request)), request.params.kind, request.query),
    ),
  )
}
