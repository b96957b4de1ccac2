import Fastify from 'fastify'
import { API_ROUTES } from '../../../contracts/routes.ts'
import type { RunService } from '../runs/service.ts'
import { listen } from '../start/listen.ts'
import { refuseForeignHosts } from './host-guard.ts'

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Serves the metrics on a separate port, so that the Prometheus server does not need access to the API. */
export async function serveMetrics(
  service: Pick<RunService, 'metrics'>,
  {
    host,
    metricsPort: port,
    allowedHosts,
  }: {
    readonly host: string
    readonly metricsPort: number | undefined
    readonly allowedHosts: readonly string[]
  },
): Promise<{ close(): Promise<void> } | undefined> {
  if (port === undefined) return undefined
  const app = Fastify({ bodyLimit: 1024, requestTimeout: 10_000, connectionTimeout: 60_000 })
  refuseForeignHosts(app, allowedHosts)
  app.get(API_ROUTES.metrics, async (_request, reply) =>
    reply.type(METRICS_TYPE).send(await service.metrics()),
  )
  await listen(app, { host, port })
  return { close: () => app.close() }
}
