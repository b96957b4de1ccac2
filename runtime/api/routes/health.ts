import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { Health, Readiness } from '../../../contracts/api.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { METRICS_TYPE } from '../http/metrics-listener.ts'
import { OPEN } from '../http/schemas.ts'
import type { RunService } from '../runs/service.ts'

const tags = ['service']

/** Routes without an API key. They reveal nothing about runs. */
type HealthOptions = { readonly service: RunService; readonly hasOwnMetricsPort: boolean }

export const healthRoutes: FastifyPluginAsyncZod<HealthOptions> = async (app, options) => {
  const { service } = options
  app.get(
    API_ROUTES.healthz,
    {
      schema: {
        ...OPEN,
        tags,
        operationId: 'getHealth',
        summary: 'Check that the process is alive',
        response: { 200: Health },
      },
    },
    async () => ({ status: 'ok' as const }),
  )

  app.get(
    API_ROUTES.readyz,
    {
      schema: {
        ...OPEN,
        tags,
        operationId: 'getReadiness',
        summary: 'Check whether the service can take runs',
        response: { 200: Readiness, 503: Readiness },
      },
    },
    async (_request, reply) => {
      const readiness = await service.ready()
      return reply.code(readiness.ready ? 200 : 503).send({ ...readiness, checks: [...readiness.checks] })
    },
  )

  if (options.hasOwnMetricsPort) return
  app.get(
    API_ROUTES.metrics,
    {
      schema: {
        ...OPEN,
        tags,
        operationId: 'getMetrics',
        summary: 'Read the metrics in Prometheus text format',
        response: { 200: { content: { 'text/plain': { schema: z.string() } } } },
      },
    },
    async (_request, reply) => reply.type(METRICS_TYPE).send(await service.metrics()),
  )
}
