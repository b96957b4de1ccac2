import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'
import { InvalidRequest } from './problem.ts'

/** Names that lead to this machine wherever they are resolved. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]']
/** What programs send as `Host` over a Unix socket. */
const SOCKET_HOST = 'localhost'
const HTTP_PORT = 80

/**
 * Accepts requests with an exact list of `Host` values: those of the connection's own address, and the configured
 * ones. A web page can make a name of its own resolve to the service's address (DNS rebinding); its requests then carry
 * that name. Requests of pages of another origin say so themselves, and are refused too.
 */
export function refuseForeignHosts(app: FastifyInstance, configured: readonly string[]): void {
  app.addHook('onRequest', async ({ raw, headers }) => {
    const [host, second] = hostsOf(raw)
    if (second !== undefined)
      throw new InvalidRequest('More than one `Host` header.', [
        { field: 'host', message: 'must be there once' },
      ])
    const accepted = [...ownHosts(raw.socket), ...configured]
    if (host === undefined || !accepted.includes(host)) throw foreignHost(host)
    if (headers.origin !== undefined && !accepted.includes(hostOfOrigin(headers.origin)))
      throw new SandboxError('forbidden', 'This service refuses requests from web pages of other origins.')
  })
}

/** Every `Host` header of a request; Node shows the first alone. */
const hostsOf = ({ rawHeaders }: IncomingMessage): string[] =>
  rawHeaders.flatMap((name, at) =>
    at % 2 === 0 && name.toLowerCase() === 'host' ? [(rawHeaders[at + 1] ?? '').toLowerCase()] : [],
  )

/**
 * The names of the connection's own end. An address literal among them is that of the connection itself, which is no
 * name that a resolver could change: probes of Kubernetes send it.
 */
function ownHosts({ localAddress, localPort }: Socket): string[] {
  if (localPort === undefined) return [SOCKET_HOST]
  const names = localAddress === undefined ? LOOPBACK_NAMES : [...LOOPBACK_NAMES, literalOf(localAddress)]
  return names.flatMap((name) => [`${name}:${localPort}`, ...(localPort === HTTP_PORT ? [name] : [])])
}

/** An address as it stands in a URL. A listener for both families shows IPv4 addresses as mapped ones. */
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
      : `This service does not answer to the host name ${JSON.stringify(host)}. Its operator can add it to AGENTWEAVER_ALLOWED_HOSTS.`,
  )
