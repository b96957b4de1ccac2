import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { bearer, listen, RUN, startApp } from './harness.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

describe('a rejected request', () => {
  test('returns problem details with the id of the request', async () => {
    const { app, keys } = startApp()
    const url = `/api/runs/run_${'0'.repeat(32)}`
    const answer = await app.inject({ url, headers: bearer(keys.ada) })
    expect(answer.statusCode).toBe(404)
    expect(answer.headers['content-type']).toBe('application/problem+json; charset=utf-8')
    expect(answer.json()).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      code: 'not_found',
      detail: expect.any(String),
      requestId: answer.headers['x-request-id'],
    })
  })

  test('lists unknown keys and wrong values of nested fields, queries and paths', async () => {
    const { app, keys } = startApp()
    const headers = bearer(keys.ada)
    const fieldsOf = async (request: { method?: 'POST'; url: string; body?: object }) => {
      const answer = await app.inject({ ...request, headers })
      expect(answer.statusCode).toBe(400)
      return answer
        .json()
        .errors.map(({ field }: { field: string }) => field)
        .sort()
    }
    const body = { ...RUN, extra: 1, agent: { kind: 'copilot', model: '' }, policy: { direct: true } }
    expect(await fieldsOf({ method: 'POST', url: '/api/runs', body })).toEqual([
      'agent.model',
      'extra',
      'policy.direct',
    ])
    expect(await fieldsOf({ url: '/api/runs?limit=0&colour=red' })).toEqual(['colour', 'limit'])
    expect(await fieldsOf({ url: '/api/runs/nonsense' })).toEqual(['id'])
    expect(await fieldsOf({ url: `/api/runs/run_${'0'.repeat(32)}/events?after=1e3` })).toEqual(['after'])
    expect(await fieldsOf({ url: `/api/sandboxes/run_${'0'.repeat(32)}` })).toEqual(['id'])
  })

  test.for([
    ['no JSON', { headers: JSON_TYPE, body: '{ not json' }, 400, 'invalid_request'],
    ['nothing', { headers: JSON_TYPE, body: '' }, 400, 'invalid_request'],
    ['no body', {}, 400, 'invalid_request'],
    ['a prototype', { headers: JSON_TYPE, body: '{"__proto__":{"a":1}}' }, 400, 'invalid_request'],
    ['another type', { headers: { 'content-type': 'text/plain' }, body: 'x' }, 415, 'unsupported_media_type'],
    ['too much', { headers: JSON_TYPE, body: `"${'x'.repeat(8_388_608)}"` }, 413, 'payload_too_large'],
  ] as const)('with %s in place of a run is a problem', async ([, request, status, code]) => {
    const { app, keys } = startApp()
    const headers = { ...bearer(keys.ada), ...('headers' in request && request.headers) }
    const body = 'body' in request ? { body: request.body } : {}
    const answer = await app.inject({ method: 'POST', url: '/api/runs', headers, ...body })
    expect([answer.statusCode, answer.json().code]).toEqual([status, code])
  })

  test.for(['/nowhere', '/api/runs/x/previews', '/api/diagnostics/cluster', '/api/runs/x/y'])(
    'returns 404 for %s with any key',
    async (url) => {
      const { app, keys } = startApp()
      for (const headers of [{}, bearer(keys.operator)]) {
        const answer = await app.inject({ url, headers })
        expect([answer.statusCode, answer.json().code]).toEqual([404, 'not_found'])
      }
    },
  )

  test.for(['children', 'sandbox/preview'])('returns 404 for POST %s', async (name) => {
    const { app, keys } = startApp()
    const url = `/api/runs/run_${'0'.repeat(32)}/${name}`
    expect(
      (await app.inject({ method: 'POST', url, headers: bearer(keys.operator) })).json().detail,
    ).toContain('There is no POST')
  })

  test('returns a problem for a URL that cannot be decoded', async () => {
    const { app, keys } = startApp()
    const answer = await app.inject({ url: '/api/runs/%ff', headers: bearer(keys.ada) })
    expect([answer.statusCode, answer.json().code]).toEqual([400, 'invalid_request'])
  })
})

describe('an error of the service', () => {
  test.for([
    ['an unknown error', new Error('password=hunter2'), 500, 'internal'],
    [
      'a known one',
      new SandboxError('isolation_unavailable', 'secret host name'),
      503,
      'isolation_unavailable',
    ],
  ] as const)('%s shows the caller a fixed text and the log the cause', async ([, error, status, code]) => {
    const { app, keys, service, lines } = startApp()
    service.fail(error)
    const answer = await app.inject({
      method: 'POST',
      url: '/api/runs',
      headers: bearer(keys.ada),
      body: RUN,
    })
    // then
    expect([answer.statusCode, answer.json().code]).toEqual([status, code])
    expect(answer.json().detail).toBe(
      'The service could not do this. Its log has the cause under the request id.',
    )
    expect(answer.body).not.toContain(error.message)
    const logged = lines.find((line) => line.includes('a request failed')) ?? ''
    expect(logged).toContain(error.message)
    expect(logged).toContain(answer.json().requestId)
  })

  test('hides a response that does not match its schema', async () => {
    const { app, keys, service } = startApp()
    service.readPolicy = async () => ({ ...service.settings, shell_enabled: 'maybe' as unknown as boolean })
    const answer = await app.inject({ url: '/api/sandbox-policy', headers: bearer(keys.ada) })
    expect([answer.statusCode, answer.json().code]).toEqual([500, 'internal'])
  })
})

test('forbids a browser to run, embed or guess content', async () => {
  const { app } = startApp()
  const { headers } = await app.inject({ url: '/healthz' })
  expect(headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'cache-control': 'no-store',
  })
})

test.for([
  [
    'a header that is too large',
    `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
    431,
  ],
  [
    'two lengths',
    'POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx',
    400,
  ],
  [
    'a length and chunks',
    'POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  ['no host in HTTP/1.0', 'GET /healthz HTTP/1.0\r\n\r\n', 403],
  ['no host', 'GET /healthz HTTP/1.1\r\n\r\n', 400],
] as const)('a request with %s is not let in', async ([, bytes, status]) => {
  const harness = startApp()
  const url = new URL(await listen(harness))
  const socket = connect(Number(url.port), url.hostname)
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk.toString('latin1')
  })
  socket.write(bytes)
  socket.end()
  await once(socket, 'close')
  expect(answer.split(' ')[1]).toBe(String(status))
})
