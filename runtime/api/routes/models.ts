import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { ModelList } from '../../../contracts/models.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, problems } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

/** The agents and models that runs can use. */
export const modelRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service }) => {
  app.get(
    '',
    {
      schema: {
        ...GUARDED,
        tags: ['models'],
        operationId: 'listModels',
        summary:
          'List the kinds of agents and the models that a run of the caller can use, and why others cannot start',
        response: { 200: ModelList, ...problems() },
      },
    },
    async (request) => service.listModels(callerOf(request)),
  )
}
