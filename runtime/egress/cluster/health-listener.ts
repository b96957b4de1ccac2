import { createServer } from 'node:http'
import type { Registry } from 'prom-client'

export interface HealthOptions {
  readonly port: number
  readonly host?: string
  /** Why this replica should get no connections, or undefined. */
  readonly notReady: () => string | undefined
  readonly metrics: Registry
}

/** Serves `/healthz`, `/readyz` and `/metrics`. */
export async function serveHealth({ port, host = '::', notReady, metrics }: HealthOptions) {
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 10_000 },
    async (request, response) => {
      const reply = (status: number, type: string, body: string) =>
        response.writeHead(status, { 'content-type': type }).end(body)
      if (request.url === '/healthz') return reply(200, 'text/plain', 'ok\n')
      if (request.url === '/readyz') {
        const why = notReady()
        return reply(why === undefined ? 200 : 503, 'text/plain', `${why ?? 'ready'}\n`)
      }
      if (request.url === '/metrics') return reply(200, metrics.contentType, await metrics.metrics())
      return reply(404, 'text/plain', 'there are /healthz, /readyz and /metrics\n')
    },
  )
  server.maxConnections = 256
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen({ port, host }, resolve)
  await promise
  return {
    close(): void {
      server.close()
      server.closeAllConnections()
    },
  }
}
