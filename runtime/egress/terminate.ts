import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import { createServer, type SecureContext, type TLSSocket } from 'node:tls'
import { errnoOf } from '../kit/errors.ts'
import type { Refusal } from './refusals.ts'

export interface Handshake {
  readonly context: SecureContext
  readonly ms: number
}

export type Terminated =
  | { readonly ok: true; readonly socket: TLSSocket }
  /** Without a refusal, the client has left or was too slow. */
  | { readonly ok: false; readonly refusal?: Refusal | undefined }

/** HTTP/2 is not offered: each of its connections carries requests to more than one host. */
const PROTOCOLS = ['http/1.1']

const SPLICE = 'add "splice: allow" to its entry, after which the proxy passes TLS on unread'

/** TLS alerts with which clients report a certificate that they do not trust. */
const UNTRUSTED = /ALERT_(?:UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNSUPPORTED_CERTIFICATE)/

function refusalOf(error: Error): Refusal | undefined {
  const code = errnoOf(error) ?? ''
  if (UNTRUSTED.test(code))
    return {
      rule: 'certificate',
      reason: 'the client does not trust the certificate of the egress proxy',
      remedy: `Make it read the certificates in the file that SSL_CERT_FILE names. For a client that accepts only the certificate of the host, a person can ${SPLICE}.`,
    }
  if (code.includes('NO_APPLICATION_PROTOCOL'))
    return {
      rule: 'request',
      reason: 'the client speaks only HTTP/2, such as gRPC, and the proxy speaks HTTP/1.1 for this host',
      remedy: `Use HTTP/1.1. Otherwise a person can ${SPLICE}.`,
    }
  return undefined
}

/**
 * Becomes the TLS server of a client whose ClientHello was checked and is still to be read from the socket. Each
 * connection has a separate server with a separate ticket key, so that no client can resume a session, also not one of
 * another run.
 */
export function terminate(client: Socket, { context, ms }: Handshake): Promise<Terminated> {
  const { promise, resolve } = Promise.withResolvers<Terminated>()
  const server = createServer({
    SNICallback: (_name, done) => done(null, context),
    ALPNProtocols: PROTOCOLS,
    minVersion: 'TLSv1.2',
    handshakeTimeout: ms,
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  })
  server.on('secureConnection', (socket) => {
    // Activity is seen only by the socket that reads.
    client.setTimeout(0)
    socket.on('error', () => socket.destroy())
    resolve({ ok: true, socket })
  })
  server.on('tlsClientError', (error) => resolve({ ok: false, refusal: refusalOf(error) }))
  client.once('close', () => resolve({ ok: false }))
  server.emit('connection', client)
  return promise
}
