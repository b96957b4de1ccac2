import type { FastifyInstance } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

/** Whether an address to listen on can be reached from this machine alone. */
export const isLoopback = (host: string): boolean =>
  LOOPBACK_HOST.test(host.includes(':') && !host.startsWith('[') ? `[${host}]` : host)

/**
 * Refuses requests that a web page made. A page's name can be made to resolve to 127.0.0.1 (DNS rebinding); its
 * requests then carry that name as `Host`, and cross-origin ones say so.
 */
export function refuseForeignHosts(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ headers }) => {
    if (!LOOPBACK_HOST.test(headers.host ?? '')) {
      throw new SandboxError('forbidden', 'This service answers requests to localhost alone.')
    }
    if (headers.origin !== undefined && !isLoopbackOrigin(headers.origin)) {
      throw new SandboxError('forbidden', 'This service answers no requests of web pages.')
    }
  })
}

const isLoopbackOrigin = (origin: string): boolean =>
  LOOPBACK_HOST.test(/^https?:\/\/(.*)$/.exec(origin)?.[1] ?? '')
