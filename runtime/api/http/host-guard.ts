import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'
import { InvalidRequest } from './problem.ts'

/** Host names that always resolve to this machine. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]']
/** `Host` value of clients on the Unix socket. */
const SOCKET_HOST = 'localhost'
const HTTP_PORT = 80

/**
 * Accepts only listed `Host` values: the connection's own address and the configured ones. A web page can make its own
 * domain resolve to the service's address (DNS rebinding), but its requests then carry that domain as `Host`. Requests
 * with an `Origin` that is not on the list are rejected too.
 */
export function refuseForeignHosts(app: FastifyInstance, configured: readonly string[]): void {
  app.addHook('onRequest', async ({ raw, headers }) => {
    const [host, second] = hostsOf(raw)
    if (second !== undefined)
      throw new InvalidRequest('More than one `Host` header.', [
        { field: 'host', message: 'must occur once' },
      ])
    const accepted = [...ownHosts(raw.socket), ...configured]
    if (host === undefined || !accepted.includes(host)) throw foreignHost(host)
    if (headers.origin !== undefined && !accepted.includes(hostOfOrigin(headers.origin)))
      throw new SandboxError('forbidden', 'This service refuses requests from web pages of other origins.')
  })
}

/** All `Host` headers of a request. Node's parsed headers contain only the first. */
const hostsOf = ({ rawHeaders }: IncomingMessage): string[] =>
  rawHeaders.flatMap((name, at) =>
    at % 2 === 0 && name.toLowerCase() === 'host' ? [(rawHeaders[at + 1] ?? '').toLowerCase()] : [],
  )

/**
 * Loopback names and the connection's own IP address, each with the port. An IP literal is safe, because no resolver can
 * redirect it. Kubernetes probes use it.
 */
function ownHosts({ localAddress, localPort }: Socket): string[] {
  if (localPort === undefined) return [SOCKET_HOST]
  const names = localAddress === undefined ? LOOPBACK_NAMES : [...LOOPBACK_NAMES, literalOf(localAddress)]
  return names.flatMap((name) => [`${name}:${localPort}`, ...(localPort === HTTP_PORT ? [name] : [])])
}

/** Formats an address as in a URL. A dual-stack listener reports IPv4 addresses in mapped form. */
function literalOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/, '')
  return plain.includes(':') ? `[${plain}]` : plain
}

const hostOfOrigin = (origin: string): string =>
  /^https?:\/\/([^/]*)$/i.exec(origin)?.[1]?.toLowerCase() ?? ''

const foreignHost = (host: string | undefined): SandboxError =>
  new SandboxError(
    'forbidden',
    host === undefined
      ? 'Requests must have a `Host` header.'
      : `This service does not accept requests for the host name ${JSON.stringify(host)}. Its operator can add it to AGENTWEAVER_ALLOWED_HOSTS.`,
  )
