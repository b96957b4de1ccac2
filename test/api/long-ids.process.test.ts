import { describe, expect, test } from 'vitest'
import { Problem } from '../../contracts/errors.ts'
import { bearer, listen, startApp } from './harness.ts'
import { makeFixture, SAMPLES, sampleOf } from './sample-requests.ts'

/** One case per id parameter in the path of a route. */
const CASES = Object.keys(SAMPLES).flatMap((route) =>
  [...route.matchAll(/:(\w+)/g)].map(([, name = '']) => [route, name] as const),
)
/** From the first rejected length to the longest that fits into a request header. */
const LENGTHS = [101, 128, 129, 4_096, 15_000]

/** The URL of a sample with another value for one parameter. */
function replaceParam({ route, url, name }: { route: string; url: string; name: string }, value: string) {
  const [, pattern = ''] = route.split(' ')
  const at = pattern.split('/').indexOf(`:${name}`)
  return url.replace(/^[^?]*/, (path) => path.split('/').with(at, value).join('/'))
}

describe('an id of more than 100 characters', () => {
  test('is tested on every route that has one', () => {
    expect(CASES.length).toBeGreaterThanOrEqual(26)
    const names = ['id', 'commandId', 'requestId', 'keyId', 'kind']
    expect(new Set(CASES.map(([, name]) => name))).toEqual(new Set(names))
  })

  test.for(CASES)('%s returns 404 for a long %s', async ([route, name]) => {
    const harness = startApp()
    const { method, url, body, headers } = sampleOf(route, await makeFixture(harness))
    const origin = await listen(harness)
    const { port } = new URL(origin)
    const before = harness.service.calls.length
    const send = async (value: string, credential: Record<string, string>) => {
      const isJson = typeof body === 'object' && !Buffer.isBuffer(body)
      const answer = await fetch(origin + replaceParam({ route, url, name }, value), {
        method,
        headers: {
          ...(isJson && { 'content-type': 'application/json' }),
          ...headers,
          ...credential,
          host: `127.0.0.1:${port}`,
        },
        ...(body !== undefined && { body: isJson ? JSON.stringify(body) : (body as string) }),
      })
      return { answer, problem: Problem.parse(await answer.json()) }
    }

    for (const length of LENGTHS) {
      const { answer, problem } = await send('a'.repeat(length), bearer(harness.keys.ada))
      expect([answer.status, problem.status, problem.code], `${length} characters`).toEqual([
        404,
        404,
        'not_found',
      ])
      expect(problem.detail).toContain(`${length} characters`)
      expect(answer.headers.get('x-content-type-options'), 'the guards before it').toBe('nosniff')
    }
    // An escape sequence counts as the character that it encodes.
    expect((await send('%41'.repeat(101), bearer(harness.keys.ada))).answer.status).toBe(404)
    expect((await send('a'.repeat(101), {})).answer.status, 'without a key').toBe(401)
    expect(harness.service.calls.length, 'nothing was done').toBe(before)
    expect(harness.lines.filter((line) => line.includes('"error"'))).toEqual([])
  })

  test('is counted by the rate limit like any other request', async () => {
    const { app, keys } = startApp({ rateLimitPerMinute: 2 })
    const url = `/api/runs/${'a'.repeat(101)}`
    const read = async () => (await app.inject({ url, headers: bearer(keys.ada) })).statusCode
    expect([await read(), await read(), await read()]).toEqual([404, 404, 429])
  })

  test('returns 431 when it does not fit into the header of a request', async () => {
    const harness = startApp()
    const answer = await fetch(`${await listen(harness)}/api/runs/${'a'.repeat(17_000)}`)
    expect(answer.status).toBe(431)
  })

  test('is no limit for paths of files', async () => {
    const harness = startApp()
    const { sandboxId } = await makeFixture(harness)
    const url = `/api/sandboxes/${sandboxId}/files/${'a'.repeat(101)}.txt`
    const headers = { ...bearer(harness.keys.ada), 'content-type': 'application/octet-stream' }
    const answer = await harness.app.inject({ method: 'PUT', url, headers, body: 'x' })
    expect(answer.statusCode).toBe(204)
  })
})
