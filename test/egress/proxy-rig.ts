import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttp, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, createServer as createTcp, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type ConnectionOptions,
  createServer as createTls,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls'
import { onTestFinished } from 'vitest'
import type { EgressDestination, EgressGeneration, EgressReport } from '../../contracts/egress.ts'
import { EGRESS_LIMITS, type EgressLimits } from '../../runtime/egress/limits.ts'
import type { Resolve } from '../../runtime/egress/look-ups.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'
import type { UpstreamProxy } from '../../runtime/egress/upstream-proxy.ts'
import { IntermediateAuthorities } from '../../runtime/egress-ca/intermediate.ts'
import { deriveRoot } from '../../runtime/egress-ca/root.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'

export const HOST = 'registry.agentweaver-test.com'
export const OTHER = 'other.agentweaver-test.com'
export const authority = createTestAuthority()

export const portOf = (server: Server) => (server.address() as AddressInfo).port

export async function listening<T extends Server>(server: T): Promise<T> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return server
}

/** Servers on this machine: TLS for both names, HTTP, and TCP that counts its connections. */
export async function servers() {
  const requests: { method: string; url: string; headers: IncomingMessage['headers'] }[] = []
  const names: string[] = []
  const tls = await listening(
    createTls({ ...authority.serverFor(HOST, OTHER) }, (socket: TLSSocket) => {
      names.push(String(socket.servername))
      socket.on('error', () => socket.destroy())
      socket.on('data', (data) => socket.write(`echo ${data}`))
    }),
  )
  const http = await listening(
    createHttp((request, response) => {
      const { method = '', url = '', headers } = request
      requests.push({ method, url, headers })
      request.resume().on('end', () => response.end('plain'))
    }),
  )
  return { tls: portOf(tls), http: portOf(http), names, requests }
}

/** A server that sends `bytes` to each connection and records its input. */
export async function rawServer(bytes: Buffer) {
  const got: Buffer[] = []
  const server = await listening(
    createTcp((socket) => {
      socket.on('error', () => socket.destroy())
      socket.once('data', () => socket.write(bytes))
      socket.on('data', (data) => got.push(data))
    }),
  )
  return { port: portOf(server), got: () => Buffer.concat(got) }
}

/** Certificates of the proxy, for the names of the tests. */
export const egressRoot = deriveRoot(randomBytes(32))
export const egressAuthority = new IntermediateAuthorities(egressRoot).for([HOST, OTHER])

interface RigOptions {
  readonly ports: number[]
  readonly entry?: Partial<EgressDestination>
  readonly limits?: Partial<EgressLimits>
  readonly resolve?: Resolve
  readonly upstream?: UpstreamProxy
  /** Roots that a destination may have. @default the roots of the test servers */
  readonly roots?: readonly string[]
}

/** An entry whose TLS the proxy terminates. */
export const TERMINATED: Partial<EgressDestination> = {
  authority: egressAuthority.digest,
  methods: ['GET', 'HEAD', 'POST'],
}

/** A proxy with one sandbox that may reach `HOST`, whose addresses are pinned to this machine. */
export async function proxyRig({
  ports,
  entry,
  limits,
  resolve,
  upstream,
  roots = [authority.certificate],
}: RigOptions) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-egress-'))
  const reports: EgressReport[] = []
  const proxy = new EgressProxy({
    report: (report) => reports.push(report),
    limits: { ...EGRESS_LIMITS, ...limits },
    roots,
    ...(resolve && { resolve }),
    ...(upstream && { upstream }),
  })
  onTestFinished(() => {
    proxy.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const generation = (changes: Partial<EgressGeneration> = {}): EgressGeneration => ({
    runId: 'run',
    generation: 1,
    phase: 'work',
    socketPath: join(folder, 'socket'),
    destinations: [
      {
        host: HOST,
        ports,
        methods: 'any',
        phases: ['work'],
        caller: 'any',
        addresses: ['127.0.0.1'],
        ...entry,
      },
    ],
    ...changes,
  })
  let revision = 0
  const apply = (...generations: EgressGeneration[]) => {
    revision += 1
    return proxy.apply({ revision, generations, authorities: [egressAuthority] })
  }
  await apply(generation())
  const denied = () => reports.flatMap((report) => (report.type === 'denied' ? [report.data] : []))
  return { proxy, apply, generation, reports, denied, folder, socketPath: join(folder, 'socket') }
}

/** Collects the input of a socket until it closes. */
export function received(socket: Socket) {
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.on('error', () => undefined)
  const closed = new Promise<Buffer>((resolve) => socket.once('close', () => resolve(Buffer.concat(chunks))))
  return { closed, text: () => Buffer.concat(chunks).toString('latin1') }
}

/** Sends bytes to the proxy, and returns its response up to the end of the connection. */
export async function exchange(socketPath: string, ...bytes: (string | Uint8Array)[]): Promise<string> {
  const socket = connect(socketPath)
  const { closed } = received(socket)
  await once(socket, 'connect')
  for (const piece of bytes) socket.write(piece)
  return (await closed).toString('latin1')
}

/** Opens a tunnel. Returns the socket after the response to CONNECT. */
export async function tunnel(socketPath: string, target: string): Promise<Socket> {
  const socket = connect(socketPath)
  socket.on('error', () => undefined)
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
  const [head] = (await once(socket, 'data')) as [Buffer]
  if (!head.toString().startsWith('HTTP/1.1 200')) throw new Error(head.toString())
  return socket
}

/** A TLS connection through a tunnel. */
export const tlsThrough = async (socketPath: string, target: string, options: ConnectionOptions) =>
  tlsOver(await tunnel(socketPath, target), options)

/** A TLS connection over an open tunnel. */
export async function tlsOver(
  tunnelled: Socket,
  { servername, ...options }: ConnectionOptions,
): Promise<TLSSocket> {
  const socket = tlsConnect({
    socket: tunnelled,
    ...(servername !== undefined && { servername }),
    ca: authority.certificate,
    ...options,
  })
  socket.on('error', () => undefined)
  const failed = once(socket, 'close').then(() => Promise.reject(new Error('the connection was closed')))
  failed.catch(() => undefined)
  await Promise.race([once(socket, 'secureConnect'), failed])
  return socket
}
