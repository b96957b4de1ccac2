import { isIP, type Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { errnoOf } from '../kit/errors.ts'

export interface UpstreamTls {
  readonly servername: string
  /** Trusted roots in PEM. @default those of Node, of the system, and of NODE_EXTRA_CA_CERTS */
  readonly ca?: readonly string[] | undefined
  readonly ms: number
}

export type Secured =
  | { readonly ok: true; readonly socket: TLSSocket }
  /** `isCertificate`: the server's certificate is not valid for its name. */
  | { readonly ok: false; readonly isCertificate: boolean; readonly reason: string }

/** Codes of OpenSSL and Node for a certificate that they do not accept. */
const CERTIFICATE = /CERT|ISSUER|CRL|SELF_SIGNED|UNABLE_TO_VERIFY|HOSTNAME_MISMATCH|INVALID_(?:CA|PURPOSE)/

/** Connects with TLS. The server's certificate must be valid for the name that was judged. */
export function secure(socket: Socket, { servername, ca, ms }: UpstreamTls): Promise<Secured> {
  const { promise, resolve } = Promise.withResolvers<Secured>()
  const tls = connect({
    socket,
    // An address is no server name (RFC 6066, section 3). The certificate must have it all the same.
    ...(isIP(servername) ? { host: servername } : { servername }),
    ...(ca && { ca: [...ca] }),
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
    fail(isCertificate ? `its certificate is not accepted (${code})` : `TLS failed (${code})`, isCertificate)
  })
  tls.once('close', () => fail('the host ended the TLS handshake'))
  tls.once('secureConnect', () => {
    if (tls.authorized) resolve({ ok: true, socket: tls })
    else fail('its certificate is not accepted', true)
  })
  return promise.finally(() => clearTimeout(timer))
}
