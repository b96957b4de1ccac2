import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer as createTls, type TLSSocket } from 'node:tls'
import { onTestFinished } from 'vitest'
import type { EgressDestination } from '../../contracts/egress.ts'
import type { EgressLimits } from '../../runtime/egress/limits.ts'
import {
  authority,
  egressRoot,
  HOST,
  listening,
  OTHER,
  portOf,
  proxyRig,
  received,
  TERMINATED,
  tlsThrough,
} from './proxy-rig.ts'

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: string[]
  readonly body: string
}

/** An HTTPS server for the names of the tests, or with other certificates. */
export async function httpsServer(
  options = authority.serverFor(HOST, OTHER),
  onUpgrade?: (request: IncomingMessage, socket: Duplex) => void,
) {
  const seen: Seen[] = []
  const server = await listening(
    createServer(options, (request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk) => chunks.push(chunk))
      request.on('error', () => undefined)
      request.on('end', () => {
        const { method = '', url = '', headers, rawHeaders } = request
        seen.push({ method, url, headers, rawHeaders, body: Buffer.concat(chunks).toString() })
        response.end(`answer to ${method} ${url}`)
      })
    }),
  )
  if (onUpgrade) server.on('upgrade', onUpgrade)
  server.on('tlsClientError', () => undefined)
  return { port: portOf(server), seen, server }
}

/** A TLS server that sends `bytes` after the first data of a client, and records all of it. */
export async function rawTlsServer(bytes: string | ((socket: TLSSocket) => void)) {
  let got = ''
  const sockets: TLSSocket[] = []
  const server = createTls(authority.serverFor(HOST, OTHER), (socket) => {
    sockets.push(socket)
    socket.on('error', () => socket.destroy())
    socket.on('data', (data) => {
      got += data.toString('latin1')
    })
    socket.once('data', () => {
      if (typeof bytes === 'string') socket.write(bytes, 'latin1')
      else bytes(socket)
    })
  })
  server.on('tlsClientError', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, got: () => got, sockets, server }
}

/** A proxy that terminates the TLS of `HOST` at a port. */
export async function terminatingRig(
  port: number,
  options: {
    readonly entry?: Partial<EgressDestination>
    readonly limits?: Partial<EgressLimits>
    readonly roots?: readonly string[]
  } = {},
) {
  const rig = await proxyRig({ ...options, ports: [port], entry: { ...TERMINATED, ...options.entry } })
  const target = `${HOST}:${port}`
  /** A client that trusts the proxy's root. */
  const open = (servername = HOST) =>
    tlsThrough(rig.socketPath, target, {
      servername,
      ca: egressRoot.certificate,
      ALPNProtocols: ['http/1.1'],
    })
  /** Sends bytes, and returns all that comes back until the connection ends. */
  const send = async (...bytes: string[]) => {
    const socket = await open()
    const { closed } = received(socket)
    for (const piece of bytes) socket.write(piece, 'latin1')
    return (await closed).toString('latin1')
  }
  return { ...rig, target, open, send }
}

/** A request that ends its connection. */
export const requestText = (port: number, more = '', first = 'GET /x') =>
  `${first} HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n${more}\r\n`
