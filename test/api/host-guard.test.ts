import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { isLoopback } from '../../runtime/api/http/host-guard.ts'
import { bearer, listen, startApp } from './harness.ts'

describe('a service that listens on loopback', () => {
  test.for(['localhost', 'localhost:8080', '127.0.0.1:8080', '127.9.9.9', '[::1]:8080', 'LOCALHOST:1'])(
    'answers the host %s',
    async (host) => {
      const { app } = startApp()
      expect((await app.inject({ url: '/healthz', headers: { host } })).statusCode).toBe(200)
    },
  )

  test.for([
    'evil.example',
    'evil.example:8080',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evil.example#localhost',
    'localhost@evil.example',
    '192.168.1.5:8080',
    '0.0.0.0',
    '[::]',
  ])('refuses the host %j on every route, with a key too', async (host) => {
    const { app, keys } = startApp()
    for (const url of ['/healthz', '/metrics', '/openapi.json', '/api/runs', '/nowhere']) {
      const answer = await app.inject({ url, headers: { host, ...bearer(keys.operator) } })
      expect([answer.statusCode, answer.json().code], url).toEqual([403, 'forbidden'])
    }
  })

  test.for(['https://evil.example', 'http://localhost.evil.example', 'null', 'http://192.168.1.5:8080'])(
    'refuses a page of %s',
    async (origin) => {
      const { app, keys } = startApp()
      const headers = { origin, ...bearer(keys.operator) }
      expect((await app.inject({ url: '/api/runs', headers })).statusCode).toBe(403)
    },
  )

  test('lets no page read across origins', async () => {
    const { app, keys } = startApp()
    const preflight = await app.inject({
      method: 'OPTIONS',
      url: '/api/runs',
      headers: { origin: 'http://localhost:3000', 'access-control-request-method': 'POST' },
    })
    const read = await app.inject({
      url: '/api/runs',
      headers: { origin: 'http://localhost:3000', ...bearer(keys.ada) },
    })
    expect(preflight.statusCode).toBe(404)
    expect(read.statusCode).toBe(200)
    for (const { headers } of [preflight, read]) {
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })

  test('refuses a rebound name over a real connection', async () => {
    const harness = startApp()
    const { port } = new URL(await listen(harness))
    const statusFor = (host: string) =>
      new Promise((resolve, reject) => {
        request({ port, host: '127.0.0.1', path: '/healthz', headers: { host } }, (answer) => {
          answer.resume()
          resolve(answer.statusCode)
        })
          .on('error', reject)
          .end()
      })
    expect(await statusFor(`evil.example:${port}`)).toBe(403)
    expect(await statusFor(`localhost:${port}`)).toBe(200)
  })
})

test('a service that others reach takes the host it is called by', async () => {
  const { app } = startApp({ loopbackOnly: false })
  expect((await app.inject({ url: '/healthz', headers: { host: 'api.internal' } })).statusCode).toBe(200)
})

test.for([
  ['127.0.0.1', true],
  ['localhost', true],
  ['::1', true],
  ['127.1.2.3', true],
  ['0.0.0.0', false],
  ['::', false],
  ['10.0.0.1', false],
  ['localhost.evil.example', false],
] as const)('listening on %s is loopback: %s', ([host, expected]) => {
  expect(isLoopback(host)).toBe(expected)
})
