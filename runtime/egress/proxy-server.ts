import { createServer, type Server } from 'node:http'
import type { EgressLimits } from './limits.ts'

/** An HTTP server with the limits of the proxy. Its users emit the connections that it serves, or let it listen. */
export function createProxyServer(limits: EgressLimits): Server {
  const server = createServer({
    highWaterMark: limits.bufferBytes,
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headerMs,
    requestTimeout: 0,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: 1000,
  })
  server.timeout = limits.idleMs
  // A client may end its side after the request, such as `nc -N`. By default, Node aborts its request.
  return Object.assign(server, { httpAllowHalfOpen: true })
}
