import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listenOnSocket } from '../../runtime/api/start/listen-on-socket.ts'
import { bearer, listen, startApp } from './harness.ts'

type Place = { readonly port: string } | { readonly socketPath: string }

/** Status of a request with these headers, over a real connection. */
const statusFor = (place: Place, headers: Record<string, string>, path = '/healthz') =>
  new Promise<number | undefined>((resolve, reject) => {
    request({ host: '127.0.0.1', ...place, path, headers }, (answer) => {
      answer.resume()
      resolve(answer.statusCode)
    })
      .on('error', reject)
      .end()
  })

/** Status line of a raw request, written byte by byte. */
async function rawStatus(port: string, ...lines: string[]): Promise<number> {
  const socket = connect(Number(port), '127.0.0.1')
  socket.end(`${[...lines, 'connection: close'].join('\r\n')}\r\n\r\n`)
  return Number((await text(socket)).split(' ')[1])
}

async function aPort(allowedHosts?: string[]) {
  const harness = startApp(allowedHosts && { allowedHosts })
  return { ...harness, port: new URL(await listen(harness)).port }
}

describe('a service without configured names', () => {
  test.for(['localhost', '127.0.0.1', '[::1]', 'LOCALHOST'])(
    'accepts %s only with its port',
    async (name) => {
      const { port } = await aPort()

      expect(await statusFor({ port }, { host: `${name}:${port}` })).toBe(200)
      expect(await statusFor({ port }, { host: name })).toBe(403)
      expect(await statusFor({ port }, { host: `${name}:1` })).toBe(403)
    },
  )

  test.for([
    'evil.example',
    'localhost.evil.example',
    'evil.localhost',
    '127.0.0.1.evil.example',
    '127.9.9.9',
    'localhost.',
    'evil.example#localhost',
    'localhost@evil.example',
    '192.168.1.5',
    '0.0.0.0',
    '[::]',
    '2130706433',
  ])('rejects the host %j on every route, even with a key', async (name) => {
    const { port, keys } = await aPort()
    for (const path of ['/healthz', '/metrics', '/openapi.json', '/api/runs', '/nowhere']) {
      const headers = { host: `${name}:${port}`, ...bearer(keys.operator) }
      expect(await statusFor({ port }, headers, path), path).toBe(403)
    }
  })

  test('names the rejected host and the setting that adds it', async () => {
    const { app } = startApp()

    const answer = await app.inject({ url: '/healthz', headers: { host: 'evil.example' } })

    expect([answer.statusCode, answer.json().code]).toEqual([403, 'forbidden'])
    expect(answer.json().detail).toMatch(/"evil\.example".*AGENTWEAVER_ALLOWED_HOSTS/)
  })

  test('rejects a second Host header in either order, and a missing one', async () => {
    const { port } = await aPort()
    const [good, bad] = [`Host: localhost:${port}`, 'host: evil.example']

    expect(await rawStatus(port, 'GET /healthz HTTP/1.1', good)).toBe(200)
    expect(await rawStatus(port, 'GET /healthz HTTP/1.1', good, bad)).toBe(400)
    expect(await rawStatus(port, 'GET /healthz HTTP/1.1', bad, good)).toBe(400)
    expect(await rawStatus(port, 'GET /healthz HTTP/1.1', good, good)).toBe(400)
    expect(await rawStatus(port, 'GET /healthz HTTP/1.0')).toBe(403)
    expect(await rawStatus(port, 'GET /healthz HTTP/1.1', 'Host:')).toBe(403)
  })

  test.for(['https://evil.example', 'http://localhost.evil.example', 'null', 'http://192.168.1.5:8080'])(
    'rejects the origin %s',
    async (origin) => {
      const { app, keys } = startApp()
      const headers = { origin, ...bearer(keys.operator) }
      expect((await app.inject({ url: '/api/runs', headers })).statusCode).toBe(403)
    },
  )

  test('rejects pages on other ports of this machine, and sends no CORS headers', async () => {
    const { app, keys } = startApp()
    const from = (origin: string) =>
      app.inject({ url: '/api/runs', headers: { origin, ...bearer(keys.ada) } })
    const preflight = await app.inject({
      method: 'OPTIONS',
      url: '/api/runs',
      headers: { origin: 'http://localhost:80', 'access-control-request-method': 'POST' },
    })
    const [other, same] = [await from('http://localhost:3000'), await from('http://localhost:80')]

    expect([preflight, other, same].map(({ statusCode }) => statusCode)).toEqual([404, 403, 200])
    for (const { headers } of [preflight, other, same]) {
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })
})

describe('a service with configured names', () => {
  test('accepts exactly these names in addition to its own', async () => {
    const { port } = await aPort(['api.example', 'api.internal:8080'])
    const statuses = async (...hosts: string[]) =>
      Promise.all(hosts.map((host) => statusFor({ port }, { host })))

    expect(await statuses('api.example', 'API.example', 'api.internal:8080')).toEqual([200, 200, 200])
    expect(await statuses('api.example:8080', 'api.internal', 'x.api.example')).toEqual([403, 403, 403])
  })

  test('accepts its own pages under a configured name', async () => {
    const { port } = await aPort(['api.example'])
    const from = (origin: string) => statusFor({ port }, { host: 'api.example', origin })

    expect(await from('https://api.example')).toBe(200)
    expect(await from('https://evil.example')).toBe(403)
  })
})

test.for(['::', '0.0.0.0'])(
  'a service on %s accepts the address of the connection, as Kubernetes probes need',
  async (host) => {
    const { app } = startApp()
    const { port } = new URL(await app.listen({ host, port: 0 }))
    // All of 127.0.0.0/8 belongs to this machine, so this address can stand for a pod's address.
    const asked = (address: string, named: string) =>
      new Promise((resolve, reject) => {
        request(
          { host: address, port, path: '/healthz', headers: { host: `${named}:${port}` } },
          (answer) => {
            answer.resume()
            resolve(answer.statusCode)
          },
        )
          .on('error', reject)
          .end()
      })

    expect(await asked('127.9.9.9', '127.9.9.9')).toBe(200)
    expect(await asked('127.9.9.9', '127.8.8.8')).toBe(403)
  },
)

test('on the Unix socket the host is localhost, with the same rules', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'aw-host-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { app } = startApp({ allowedHosts: ['api.example'] })
  await app.ready()
  const socketPath = join(folder, 's')
  const listener = await listenOnSocket(app, { folder, name: 's', path: socketPath })
  onTestFinished(() => listener.close())

  expect(await statusFor({ socketPath }, { host: 'localhost' })).toBe(200)
  expect(await statusFor({ socketPath }, { host: 'api.example' })).toBe(200)
  expect(await statusFor({ socketPath }, { host: 'localhost:8080' })).toBe(403)
  expect(await statusFor({ socketPath }, { host: 'evil.example' })).toBe(403)
  const raw = connect(socketPath)
  await once(raw, 'connect')
  raw.end('GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\nconnection: close\r\n\r\n')
  expect(await text(raw)).toMatch(/^HTTP\/1\.1 400 /)
})
