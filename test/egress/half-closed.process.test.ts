import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createServer as createTls, connect as tlsConnect } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../helpers/until.ts'
import { deploymentRig, givenNetwork, startControl, startProxy, startRelay, tokenFor } from './cluster-rig.ts'
import {
  authority,
  HOST,
  listening,
  OTHER,
  portOf,
  proxyRig,
  received,
  servers,
  TERMINATED,
  tunnel,
} from './proxy-rig.ts'
import { httpsServer } from './terminate-rig.ts'

const RELAY = fileURLToPath(new URL('../../runtime/egress-relay/relay.ts', import.meta.url))
const hasNetcat = spawnSync('nc', ['-h']).stderr?.toString().includes('-N') === true
const PLAIN = { http: 'allow', methods: ['GET'] } as const

const plainRequest = (port: number) =>
  `GET http://${HOST}:${port}/x HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n\r\n`
const inTunnel = (port: number) =>
  `CONNECT ${HOST}:${port} HTTP/1.1\r\nHost: ${HOST}:${port}\r\n\r\nGET /x HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n\r\n`

/** Sends bytes and the end of them, and returns what comes back. */
async function sendAndEnd(socket: Socket, bytes: string): Promise<string> {
  const { closed } = received(socket)
  socket.end(bytes)
  return (await closed).toString('latin1')
}

const halfOpen = (at: string | number) =>
  typeof at === 'string'
    ? connect({ path: at, allowHalfOpen: true })
    : connect({ host: '127.0.0.1', port: at, allowHalfOpen: true })

async function plainRig() {
  const site = await servers()
  const { socketPath } = await proxyRig({ ports: [site.http], entry: { ...PLAIN, methods: ['GET'] } })
  return { socketPath, port: site.http, requests: site.requests }
}

describe('a client that ends its side after the request gets the whole answer', () => {
  it('without TLS', async () => {
    const { socketPath, port } = await plainRig()

    expect(await sendAndEnd(halfOpen(socketPath), plainRequest(port))).toMatch(/^HTTP\/1\.1 200 .*plain$/s)
  })

  it('without TLS, in a tunnel that it opens in the same packet', async () => {
    const { socketPath, port } = await plainRig()

    expect(await sendAndEnd(halfOpen(socketPath), inTunnel(port))).toMatch(
      /^HTTP\/1\.1 200 Connection established\r\n\r\nHTTP\/1\.1 200 .*plain$/s,
    )
  })

  it('inside TLS that the proxy reads', async () => {
    const { port, seen } = await httpsServer()
    const { socketPath } = await proxyRig({ ports: [port], entry: TERMINATED })
    const socket = tlsConnect({
      ...{ socket: await tunnel(socketPath, `${HOST}:${port}`), servername: HOST, allowHalfOpen: true },
      rejectUnauthorized: false,
    })
    await once(socket, 'secureConnect')

    const answer = await sendAndEnd(
      socket,
      `GET /x HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n\r\n`,
    )

    expect(answer).toMatch(/^HTTP\/1\.1 200 .*answer to GET \/x/s)
    expect(seen).toHaveLength(1)
  })

  it('inside TLS that is passed on unread', async () => {
    const server = await listening(
      createTls({ ...authority.serverFor(HOST, OTHER), allowHalfOpen: true }, (socket) => {
        let text = ''
        socket.on('data', (data) => {
          text += data
        })
        socket.on('error', () => socket.destroy())
        socket.on('end', () => socket.end(`got ${text}`))
      }),
    )
    const { socketPath } = await proxyRig({ ports: [portOf(server)] })
    const socket = tlsConnect({
      ...{ socket: await tunnel(socketPath, `${HOST}:${portOf(server)}`), servername: HOST },
      ...{ allowHalfOpen: true, ca: authority.certificate },
    })
    await once(socket, 'secureConnect')

    expect(await sendAndEnd(socket, 'all of it')).toBe('got all of it')
  })

  it('through the relay of a pod and a replica', async () => {
    const { port, site } = await podRig()

    expect(await sendAndEnd(halfOpen(port), plainRequest(site.http))).toMatch(/^HTTP\/1\.1 200 .*plain$/s)
    expect(await sendAndEnd(halfOpen(port), inTunnel(site.http))).toMatch(/HTTP\/1\.1 200 [^C].*plain$/s)
  })

  it('and a refusal in words', async () => {
    const { socketPath, requests } = await plainRig()

    expect(
      await sendAndEnd(halfOpen(socketPath), plainRequest(1).replaceAll(HOST, 'other.example.com')),
    ).toMatch(/^HTTP\/1\.1 403 .*other\.example\.com/s)
    expect(requests).toEqual([])
  })
})

/** The relay of a pod, and a replica of the proxy that lists its sandbox. */
async function podRig() {
  const site = await servers()
  const deployment = await deploymentRig([site.http], { http: 'allow' })
  const control = await startControl(deployment)
  const replica = await startProxy(deployment, control.url)
  const runId = await givenNetwork(deployment.store)
  await until('the replica has a lease', () => replica.lease.isHeld)
  const { relay, port } = await startRelay(`127.0.0.1:${replica.port}`)
  relay.use({ commandsToken: await tokenFor({ keys: deployment.keys, runId }) })
  return { port, site }
}

describe.skipIf(!hasNetcat)(
  `nc -N gets the answer to its request${hasNetcat ? '' : ' (skipped: there is no netcat with -N)'}`,
  () => {
    /** `printf … | nc -N`, as a person types it. */
    async function netcat(port: number, request: string): Promise<string> {
      const child = promisify(execFile)('nc', ['-N', '127.0.0.1', String(port)], { timeout: 60_000 })
      child.child.stdin?.end(request)
      return (await child).stdout
    }

    it('through the relay of a laptop', async () => {
      const { socketPath, port } = await plainRig()
      const listen = await freePort()
      const relay = spawn(process.execPath, [RELAY, socketPath, String(listen)], {
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      onTestFinished(() => void relay.kill('SIGKILL'))
      await once(relay.stdout, 'data')

      expect(await netcat(listen, plainRequest(port))).toMatch(/^HTTP\/1\.1 200 .*plain$/s)
      expect(await netcat(listen, inTunnel(port))).toMatch(/HTTP\/1\.1 200 [^C].*plain$/s)
    })

    it('through the relay of a pod', async () => {
      const { port, site } = await podRig()

      expect(await netcat(port, plainRequest(site.http))).toMatch(/^HTTP\/1\.1 200 .*plain$/s)
      expect(await netcat(port, inTunnel(site.http))).toMatch(/HTTP\/1\.1 200 [^C].*plain$/s)
    })
  },
)

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
