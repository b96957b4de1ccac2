import { isIP, type Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import type { ClientCertificate } from '../kit/client-certificate.ts'
import { errnoOf } from '../kit/errors.ts'

export interface UpstreamTls {
  readonly servername: string
  /** Trusted roots in PEM. @default the roots of Node, of the system, and of NODE_EXTRA_CA_CERTS */
  readonly ca?: readonly string[] | undefined
  /** Presented if the server asks for a certificate. @default none */
  readonly client?: Pick<ClientCertificate, 'cert' | 'key'> | undefined
  readonly ms: number
}

export type Secured =
  | { readonly ok: true; readonly socket: TLSSocket }
  /** `isCertificate`: the server's certificate is not valid for its name. */
  | { readonly ok: false; readonly isCertificate: boolean; readonly reason: string }

/** Codes of OpenSSL and Node for a certificate that they do not accept. */
const CERTIFICATE = /CERT|ISSUER|CRL|SELF_SIGNED|UNABLE_TO_VERIFY|HOSTNAME_MISMATCH|INVALID_(?:CA|PURPOSE)/

/** Alerts about the certificate of a client (RFC 8446, section 6.2). */
const CLIENT_ALERT =
  /ALERT_(?:UNKNOWN_CA|ACCESS_DENIED|(?:BAD|UNSUPPORTED|NO)_CERTIFICATE|CERTIFICATE_(?:REVOKED|EXPIRED|UNKNOWN))/

/**
 * What the alert of a server says about the certificate of the proxy, or undefined. With TLS 1.3, the alert comes after the
 * handshake.
 */
export function clientFault(error: Error): string | undefined {
  const code = errnoOf(error) ?? ''
  if (code.includes('ALERT_CERTIFICATE_REQUIRED'))
    return `the host demands a client certificate, which "credential" of its entry can name (${code})`
  return CLIENT_ALERT.test(code) ? `the host does not accept the client certificate (${code})` : undefined
}

/** Connects with TLS. The server's certificate must be valid for the name that was judged. */
export function secure(socket: Socket, { servername, ca, client, ms }: UpstreamTls): Promise<Secured> {
  const { promise, resolve } = Promise.withResolvers<Secured>()
  const tls = connect({
    socket,
    // An address is no server name (RFC 6066, section 3). The certificate must have it all the same.
    ...(isIP(servername) ? { host: servername } : { servername }),
    ...(ca && { ca: [...ca] }),
    ...(client && { cert: client.cert, key: client.key }),
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.2',
  })
  const fail = (reason: string, isCertificate = false) => {
    resolve({ ok: false, isCertificate, reason })
    tls.destroy()
  }
  const timer = setTimeout(() => fail('the TLS handshake takes too long'), ms)
  tls.on('error', (error) => {
    const code = errnoOf(error) ?? 'TLS error'
    const isCertificate = CERTIFICATE.test(code) && !code.includes('ALERT')
    const failed = clientFault(error) ?? `TLS failed (${code})`
    fail(isCertificate ? `its certificate is not accepted (${code})` : failed, isCertificate)
  })
  tls.once('close', () => fail('the host ended the TLS handshake'))
  tls.once('secureConnect', () => {
    if (tls.authorized) resolve({ ok: true, socket: tls })
    else fail('its certificate is not accepted', true)
  })
  return promise.finally(() => clearTimeout(timer))
}
