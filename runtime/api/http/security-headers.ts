import type { FastifyInstance } from 'fastify'

/** For the case that a browser shows an answer: it runs nothing, embeds nothing and guesses no type. */
export function setSecurityHeaders(app: FastifyInstance): void {
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('x-content-type-options', 'nosniff')
    reply.header('content-security-policy', "default-src 'none'; frame-ancestors 'none'")
    reply.header('cache-control', 'no-store')
  })
}
