import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { createServer } from 'node:tls'

/** TLS under the names of a certificate, before a plain server of this machine. */
export async function startTlsFront(tls: { readonly cert: string; readonly key: string }, port: number) {
  const server = createServer(tls, (near) => {
    const far = connect(port, '127.0.0.1')
    near.pipe(far).pipe(near)
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
    near.on('close', () => far.destroy())
  })
  // A client that does not trust the certificate ends the handshake.
  server.on('tlsClientError', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() }
}
