import { expect, test } from 'vitest'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { bearer, startApp } from './harness.ts'

test('each owner has a separate limit of requests per minute', async () => {
  const { app, keys } = startApp({ rateLimitPerMinute: 3 })
  const ask = (key: string) => app.inject({ url: '/api/runs', headers: bearer(key) })
  const statuses = [await ask(keys.ada), await ask(keys.ada), await ask(keys.ada)].map((a) => a.statusCode)
  const refused = await ask(keys.ada)
  expect(statuses).toEqual([200, 200, 200])
  expect([refused.statusCode, refused.json().code]).toEqual([429, 'rate_limited'])
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  expect((await ask(keys.bob)).statusCode).toBe(200)
})

test('more keys do not give an owner more requests', async () => {
  const { app, keys, store } = startApp({ rateLimitPerMinute: 3 })
  const others = [1, 2, 3, 4].map(() => store.addKey(generateApiKey(), 'ada'))
  const ask = async (key: string) => (await app.inject({ url: '/api/runs', headers: bearer(key) })).statusCode

  const statuses = [await ask(keys.ada)]
  for (const key of others) statuses.push(await ask(key))

  expect(statuses).toEqual([200, 200, 200, 429, 429])
  expect(await ask(keys.bob)).toBe(200)
})

test('failed keys are limited per address, and the right key still works', async () => {
  const { app, keys } = startApp({ rateLimitPerMinute: 3 })
  const guess = async () => (await app.inject({ url: '/api/runs', headers: bearer('awk_guess') })).statusCode
  expect([await guess(), await guess(), await guess(), await guess()]).toEqual([401, 401, 401, 429])
  expect((await app.inject({ url: '/api/runs', headers: bearer(keys.ada) })).statusCode).toBe(200)
})

test('unknown routes are limited per address', async () => {
  const { app } = startApp({ rateLimitPerMinute: 3 })
  const probe = async (name: string) => (await app.inject({ url: `/${name}` })).statusCode
  expect([await probe('a'), await probe('b'), await probe('c'), await probe('d')]).toEqual([
    404, 404, 404, 429,
  ])
})

test('health probes are never limited', async () => {
  const { app } = startApp({ rateLimitPerMinute: 1 })
  for (const url of ['/healthz', '/readyz', '/metrics', '/healthz', '/readyz', '/metrics']) {
    expect((await app.inject({ url })).statusCode).toBe(200)
  }
})
