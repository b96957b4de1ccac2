import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { Readiness } from '../../../contracts/api.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'
import type { RunService } from '../runs/service.ts'

/** The open routes: they tell nothing of any run. */
export const healthRoutes: FastifyPluginAsyncZod<{ service: RunService }> = async (app, { service }) => {
  app.get(
    API_ROUTES.healthz,
    {
      schema: {
        summary: 'Whether the process lives',
        response: { 200: z.object({ status: z.literal('ok') }) },
      },
    },
    async () => ({ status: 'ok' as const }),
  )

  app.get(
    API_ROUTES.readyz,
    { schema: { summary: 'Whether it can take runs', response: { 200: Readiness, 503: Readiness } } },
    async (_request, reply) => {
      const readiness = await service.ready()
      return reply.code(readiness.ready ? 200 : 503).send({ ...readiness, checks: [...readiness.checks] })
    },
  )

  app.get(
    API_ROUTES.metrics,
    {
      schema: {
        summary: 'Figures for Prometheus',
        response: { 200: { content: { 'text/plain': { schema: z.string() } } } },
      },
    },
    async (_request, reply) =>
      reply.type('text/plain; version=0.0.4; charset=utf-8').send(await service.metrics()),
  )
}
