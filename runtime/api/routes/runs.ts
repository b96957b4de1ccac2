import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { ForkRun, PageQuery, Run, RunPage, StartRun, StartTurn, Turn } from '../../../contracts/api.ts'
import { CONFIGURE_LIMITS } from '../../../contracts/limits.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, MutationHeaders, problems, RunParams } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['runs'] }
const mutation = { ...schema, headers: MutationHeaders }
// A scripted plan is part of the body of `/configure`, so this limit must not be larger.
const bodyLimit = CONFIGURE_LIMITS.maxBodyBytes

export const runRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  const startSchema = {
    ...mutation,
    operationId: 'startRun',
    summary: 'Start a run',
    body: StartRun,
    response: { 202: Run, ...problems(403, 409, 413, 415, 503) },
  }
  app.post('', { bodyLimit, schema: startSchema }, async (request, reply) => {
    const run = await once(request, reply, (caller) => service.startRun(caller, request.body))
    return reply.code(202).header('location', `${API_ROUTES.runs}/${run.id}`).send(run)
  })

  const forkSchema = {
    ...mutation,
    operationId: 'forkRun',
    summary: 'Start a run that continues the conversation of another one, from its last checkpoint',
    params: RunParams,
    body: ForkRun,
    response: { 202: Run, ...problems(403, 404, 409, 413, 415, 503) },
  }
  app.post('/:id/fork', { bodyLimit, schema: forkSchema }, async (request, reply) => {
    const { id } = request.params
    const run = await once(request, reply, (caller) => service.forkRun(caller, id, request.body))
    return reply.code(202).header('location', `${API_ROUTES.runs}/${run.id}`).send(run)
  })

  const listSchema = {
    ...schema,
    operationId: 'listRuns',
    summary: 'List runs, newest first',
    querystring: PageQuery,
    response: { 200: RunPage, ...problems() },
  }
  app.get('', { schema: listSchema }, async (request) =>
    service.listRuns(callerOf(request), { kind: 'agent', ...request.query }),
  )

  const readSchema = {
    ...schema,
    operationId: 'getRun',
    summary: 'Read a run',
    params: RunParams,
    response: { 200: Run, ...problems(404) },
  }
  app.get('/:id', { schema: readSchema }, async (request) =>
    service.readRun(callerOf(request), request.params.id),
  )

  const turnSchema = {
    ...mutation,
    operationId: 'startTurn',
    summary: 'Give the agent its next prompt',
    params: RunParams,
    body: StartTurn,
    response: { 202: Turn, ...problems(404, 409, 413, 415) },
  }
  app.post('/:id/turns', { schema: turnSchema }, async (request, reply) => {
    const { id } = request.params
    const turn = await once(request, reply, (caller) => service.startTurn(caller, id, request.body))
    return reply.code(202).send(turn)
  })

  const cancelSchema = {
    ...mutation,
    operationId: 'cancelRun',
    summary: 'Cancel a run; returns when it has ended, or after two seconds',
    params: RunParams,
    response: { 200: Run, ...problems(404, 409) },
  }
  app.post('/:id/cancel', { schema: cancelSchema }, async (request, reply) =>
    once(request, reply, (caller) => service.cancel(caller, request.params.id)),
  )
}
