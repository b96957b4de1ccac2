import { describe, expect, test } from 'vitest'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { bearer, startApp } from './harness.ts'
import { makeFixture, SAMPLES, sampleOf } from './sample-requests.ts'

const OPEN_ROUTES = ['GET /healthz', 'GET /metrics', 'GET /openapi.json', 'GET /readyz', 'GET /api/sign-in']

/** Every route of the app, as registered with the router. */
async function collectRoutes(): Promise<string[]> {
  const { app } = startApp()
  const routes: string[] = []
  app.addHook('onRoute', ({ method, url }) => {
    for (const verb of [method].flat()) routes.push(`${verb} ${url}`)
  })
  await app.ready()
  return routes.sort()
}

describe('the guard', () => {
  test('covers every route except the five open ones', async () => {
    const routes = await collectRoutes()
    expect(routes.filter((route) => !OPEN_ROUTES.includes(route))).toEqual(Object.keys(SAMPLES).sort())
  })

  test('lets the open routes answer without a key', async () => {
    const { app } = startApp()
    for (const route of OPEN_ROUTES) {
      const answer = await app.inject({ url: route.split(' ')[1] ?? '' })
      expect(answer.statusCode, route).toBe(200)
    }
  })

  test.for(Object.keys(SAMPLES))('requires the right key for %s', async (route) => {
    const harness = startApp()
    const { app, keys, service } = harness
    const fixture = await makeFixture(harness)
    const { method, url, body, headers, status, foreign } = sampleOf(route, fixture)
    const send = async (credential: Record<string, string>) => {
      const request = {
        method,
        url,
        headers: { ...headers, ...credential },
        ...(body !== undefined && { body }),
      }
      const { statusCode } = await app.inject(request)
      return statusCode
    }
    const before = service.calls.length
    // when no valid key is sent
    expect(await send({}), 'no key').toBe(401)
    expect(await send(bearer(generateApiKey())), 'a wrong key').toBe(401)
    expect(await send(bearer(keys.ada.slice(0, -1))), 'a truncated key').toBe(401)
    expect(await send(bearer(`${keys.ada}A`)), 'a longer key').toBe(401)
    expect(await send({ authorization: `Basic ${btoa(`ada:${keys.ada}`)}` }), 'another scheme').toBe(401)
    // then nothing was done
    expect(service.calls.length).toBe(before)
    // and each key reaches only its owner's objects
    expect(await send(bearer(keys.bob)), "another owner's key").toBe(foreign)
    expect(await send(bearer(keys.ada)), 'the right key').toBe(status)
  })

  test('lists contain nothing of other owners', async () => {
    const harness = startApp()
    await makeFixture(harness)
    for (const url of ['/api/runs', '/api/sandboxes']) {
      const read = async (key: string) =>
        (await harness.app.inject({ url, headers: bearer(key) })).json().items.length
      expect(await read(harness.keys.bob)).toBe(0)
      expect(await read(harness.keys.ada)).toBeGreaterThan(0)
      expect(await read(harness.keys.operator)).toBeGreaterThan(0)
    }
  })
})
