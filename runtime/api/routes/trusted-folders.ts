import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { PageQuery } from '../../../contracts/api.ts'
import {
  FolderQuery,
  SettingsComparison,
  TrustedFolderPage,
  TrustFolder,
} from '../../../contracts/trusted-folders.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, MutationHeaders, problems } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['policy'] }
const mutation = { ...schema, headers: MutationHeaders }

/** Settings in force per folder. A key reaches only the folders of its owner, even an operator's key. */
export const trustedFolderRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  const listSchema = {
    ...schema,
    operationId: 'listTrustedFolders',
    summary: 'List the folders with stored settings, the most recently trusted first',
    querystring: PageQuery,
    response: { 200: TrustedFolderPage, ...problems() },
  }
  app.get('', { schema: listSchema }, async (request) =>
    service.listTrustedFolders(callerOf(request), request.query),
  )

  const compareSchema = {
    ...schema,
    operationId: 'compareFolderSettings',
    summary: "Compare a folder's settings file with the settings in force",
    querystring: FolderQuery,
    response: { 200: SettingsComparison, ...problems() },
  }
  app.get('/comparison', { schema: compareSchema }, async (request) =>
    service.compareSettings(callerOf(request), request.query),
  )

  const trustSchema = {
    ...mutation,
    operationId: 'trustFolder',
    summary: "Put a folder's settings file in force for your own runs",
    body: TrustFolder,
    response: { 200: SettingsComparison, ...problems(409, 413, 415) },
  }
  app.put('', { schema: trustSchema }, async (request, reply) =>
    once(request, reply, (caller) => service.trustFolder(caller, request.body)),
  )

  const forgetSchema = {
    ...mutation,
    operationId: 'forgetTrustedFolder',
    summary: 'Forget the settings in force in a folder; the next run there counts as the first',
    querystring: FolderQuery,
    response: { 204: z.null(), ...problems(404, 409) },
  }
  app.delete('', { schema: forgetSchema }, async (request, reply) => {
    await once(request, reply, (caller) => service.forgetFolder(caller, request.query))
    return reply.code(204).send(null)
  })
}
