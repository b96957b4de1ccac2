import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { RequestSpan, Tracing } from '../tracing/tracing.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null if the request is not traced. */
    span: RequestSpan | null
  }
}

/**
 * Traces requests that change something, and those that a client traces. Reads without a trace are polls and streams of
 * clients, which would hide the rest. Runs after the guard and the rate limit: otherwise, everybody could fill the collector.
 */
export function traceRequests(scope: FastifyInstance, tracing: Tracing): void {
  scope.decorateRequest('span', null)
  scope.addHook('onRequest', async (request) => {
    const { method, headers, routeOptions } = request
    const traceparent = oneOf(headers['traceparent'])
    if (routeOptions.url === undefined || (method === 'GET' && traceparent === undefined)) return
    const tracestate = oneOf(headers['tracestate'])
    request.span = tracing.startRequest({ method, route: routeOptions.url, traceparent, tracestate })
  })
  scope.addHook('onSend', async (request, reply) => {
    request.span?.end(reply.statusCode)
  })
}

const oneOf = (header: string | string[] | undefined): string | undefined =>
  typeof header === 'string' ? header : undefined

/** The parent of everything that a request starts. Undefined if the request is not traced. */
export const traceparentOf = ({ span }: Pick<FastifyRequest, 'span'>): string | undefined => span?.traceparent
