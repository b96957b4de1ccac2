import type { FastifyInstance } from 'fastify'
import type { ProcessMetrics } from '../metrics/process-metrics.ts'

const METHODS: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'])

/**
 * Measures requests until their responses start, because an event stream stays open for hours. The labels have the pattern of
 * the route and never the URL, which the caller chooses.
 */
export function measureRequests(app: FastifyInstance, { httpRequests }: ProcessMetrics): void {
  app.addHook('onSend', async (request, reply) => {
    const labels = {
      method: METHODS.has(request.method) ? request.method : 'other',
      route: request.routeOptions.url ?? 'unknown',
      status: `${Math.trunc(reply.statusCode / 100)}xx`,
    }
    httpRequests.observe(labels, reply.elapsedTime / 1_000)
  })
}
