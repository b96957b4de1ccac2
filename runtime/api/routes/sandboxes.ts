import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { CreateSandbox, PageQuery, Run, RunPage } from '../../../contracts/api.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, MutationHeaders, problems } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['sandboxes'] }
const mutation = { ...schema, headers: MutationHeaders }
export const SandboxParams = z.object({
  id: z.string().regex(/^sbx_[0-9a-f]{32}$/, 'must be the id of a sandbox'),
})

/** Sandboxes without an agent. Each is a run of kind `command`, so the routes of runs accept it too. */
export const sandboxRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  const createSchema = {
    ...mutation,
    operationId: 'createSandbox',
    summary: 'Create a sandbox without an agent',
    body: CreateSandbox,
    response: { 202: Run, ...problems(403, 409, 413, 415, 503) },
  }
  app.post('', { schema: createSchema }, async (request, reply) => {
    const run = await once(request, reply, (caller) => service.createSandbox(caller, request.body))
    return reply.code(202).header('location', `${API_ROUTES.sandboxes}/${run.id}`).send(run)
  })

  const listSchema = {
    ...schema,
    operationId: 'listSandboxes',
    summary: 'List sandboxes, newest first',
    querystring: PageQuery,
    response: { 200: RunPage, ...problems() },
  }
  app.get('', { schema: listSchema }, async (request) =>
    service.listRuns(callerOf(request), { kind: 'command', ...request.query }),
  )

  const readSchema = {
    ...schema,
    operationId: 'getSandbox',
    summary: 'Read a sandbox',
    params: SandboxParams,
    response: { 200: Run, ...problems(404) },
  }
  app.get('/:id', { schema: readSchema }, async (request) =>
    service.readRun(callerOf(request), request.params.id),
  )

  const destroySchema = {
    ...mutation,
    operationId: 'deleteSandbox',
    summary: 'Destroy a sandbox with everything in it',
    params: SandboxParams,
    response: { 204: z.null(), ...problems(404, 409) },
  }
  app.delete('/:id', { schema: destroySchema }, async (request, reply) => {
    await once(request, reply, (caller) => service.destroySandbox(caller, request.params.id))
    return reply.code(204).send(null)
  })
}
