import type { FastifyInstance } from 'fastify'

/** Protects a browser that displays a response: no scripts, no embedding, no content sniffing. */
export function setSecurityHeaders(app: FastifyInstance): void {
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('x-content-type-options', 'nosniff')
    reply.header('content-security-policy', "default-src 'none'; frame-ancestors 'none'")
    reply.header('cache-control', 'no-store')
  })
}
