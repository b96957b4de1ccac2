import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { Run } from '../../../contracts/api.ts'
import { GUARDED, MutationHeaders, problems, RunParams } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const mutation = { ...GUARDED, tags: ['runs'], headers: MutationHeaders }

/** Runs that wait, without their sandboxes. */
export const suspensionRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  const suspendSchema = {
    ...mutation,
    operationId: 'suspendRun',
    summary: 'Save a run that waits and give its sandbox back',
    params: RunParams,
    response: { 200: Run, ...problems(404, 409) },
  }
  app.post('/:id/suspend', { schema: suspendSchema }, async (request, reply) =>
    once(request, reply, (caller) => service.suspend(caller, request.params.id)),
  )

  const resumeSchema = {
    ...mutation,
    operationId: 'resumeRun',
    summary: 'Continue a suspended run in a new sandbox',
    params: RunParams,
    response: { 200: Run, ...problems(404, 409) },
  }
  app.post('/:id/resume', { schema: resumeSchema }, async (request, reply) =>
    once(request, reply, (caller) => service.resume(caller, request.params.id)),
  )
}
