import { expect, it } from 'vitest'
import { BEARER, fresh, type Subject, shared, stateOf } from './host.ts'
import { send, sendBytes, statusOf } from './raw-http.ts'
import { routesOf } from './routes-of.ts'

const OPEN = new Set(['GET /healthz', 'HEAD /healthz', 'POST /configure', 'GET /identity', 'HEAD /identity'])

const CREDENTIALS: [string, Record<string, string>][] = [
  ['without a credential', {}],
  ['with a wrong one', { authorization: `Bearer ${'B'.repeat(43)}` }],
  ['with a near miss', { authorization: `Bearer ${BEARER.slice(0, 42)}_` }],
  ['with a truncated one', { authorization: `Bearer ${BEARER.slice(0, 42)}` }],
  ['with a longer one', { authorization: `Bearer ${BEARER}A` }],
  ['with a padded one', { authorization: `Bearer ${BEARER}=` }],
  ['with an empty one', { authorization: 'Bearer ' }],
  ['under another scheme', { authorization: `Basic ${BEARER}` }],
  ['in other letters', { authorization: `Bearer ${BEARER.toUpperCase()}` }],
]

/** Spellings of guarded routes that a lenient router, or one that decodes after its guard, would accept. */
const SPELLINGS = [
  '/%65vents',
  '/events/',
  '//events',
  '/./events',
  '/healthz/../events',
  '/healthz%2f..%2fevents',
  '/healthz/..%2fevents',
  '/events%00',
  '/events%20',
  '/events;x=y',
  '/events/.',
  '/EVENTS',
  '/events?access_token=TOKEN',
  '/events?authorization=Bearer%20TOKEN',
  '/events#x',
  '/healthz?x=/events',
  '/healthz/events',
  '/healthz;/events',
  '/identity/../events',
  '/configure/../events',
  '/configure%2f..%2fevents',
  '/files/..%2fhealthz',
  '/files/%2e%2e/healthz',
  '/files/..%5chealthz',
  '/files/%252e%252e%252fhealthz',
  '/a2a/agent/v1/message%3Astream',
  '/a2a/agent/v1/message%3astream',
  '/a2a/agent/v1/tasks/t1%3Acancel',
  '/a2a/agent/v1/tasks/t1:subscribe',
  '/a2a/agent/v1/tasks/t1::cancel',
  '/a2a/agent/.well-known/agent-card.json',
  '/a2a/agent/%2ewell-known/agent-card.json',
  'http://agent-host/events',
  'http://evil.example/events',
  '*',
]

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'SEARCH', 'PROPFIND']
const REFUSALS = [400, 401, 404, 405, 501]

export function guardCases(subject: Subject): void {
  const host = shared(subject, { agent: { kind: 'scripted', plan: { turns: [[]] } } })

  const guarded = async () => (await routesOf()).filter(({ name }) => !OPEN.has(name))

  it('returns 503 on every guarded route before it is configured, for any credential', async () => {
    const unused = await fresh(subject)
    for (const { method, path, name } of await guarded()) {
      for (const headers of [{}, { authorization: `Bearer ${BEARER}` }]) {
        expect((await send(unused, { method, path, headers })).status, name).toBe(503)
      }
    }
    expect(await stateOf(unused)).toBe('standby')
  })

  it.each(CREDENTIALS)('returns 401 on every guarded route %s', async (_what, headers) => {
    const routes = await guarded()
    expect(routes.length).toBeGreaterThan(20)
    for (const { method, path, name } of routes) {
      const answer = await send(host(), { method, path, headers: { ...headers, 'a2a-version': '1.0' } })

      expect(answer.status, name).toBe(401)
      expect(answer.headers.get('www-authenticate'), name).toBe('Bearer')
    }
  })

  it.each(SPELLINGS)('returns nothing about a run to %s', async (spelling) => {
    const path = spelling.replace('TOKEN', BEARER)
    for (const method of METHODS) {
      const [answer, second] = await sendBytes(
        host(),
        `${method} ${path} HTTP/1.1\r\nhost: agent-host\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`,
      )

      expect(second, `${method} ${path}`).toBeUndefined()
      const isHealth = answer?.status === 200 && method !== 'POST' && path.startsWith('/healthz?')
      if (!isHealth) expect(REFUSALS, `${method} ${path}`).toContain(answer?.status ?? 400)
    }
  })

  it('serves /identity if it has a projected token, and has no such route otherwise', async () => {
    const { status, json, headers } = await send(host(), { method: 'GET', path: '/identity' })

    if (!subject.hasIdentity) return expect(status).toBe(404)
    expect([status, json]).toEqual([200, { token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/) }])
    expect(headers.get('content-length'), 'the identity is read by a strict reader').toMatch(/^\d+$/)
  })

  it('accepts the right bearer on every guarded route (control)', async () => {
    for (const { method, path, name } of await guarded()) {
      const headers = { authorization: `Bearer ${BEARER}`, 'a2a-version': '1.0' }

      expect(await statusOf(host(), { method, path, headers }), name).not.toBe(401)
    }
    const headers = { authorization: `Bearer ${BEARER}`, 'a2a-version': '1.0' }
    for (const path of ['/events', '/files', '/a2a/agent/v1/tasks', '/a2a/agent/.well-known/agent-card.json'])
      expect(await statusOf(host(), { method: 'GET', path, headers }), path).toBe(200)
  })
}
