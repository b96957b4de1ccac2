import { expect, it } from 'vitest'
import type { RunSession } from '../../runtime/agent-host/session/run-session.ts'
import { INSTANCE, startHost, TOKEN } from './host-rig.ts'

const OPEN = new Set(['GET /healthz', 'HEAD /healthz', 'POST /configure'])

type Route = { readonly method: string; readonly url: string; readonly name: string }

/** Every route that the app has registered, with its parameters filled in. */
const filledIn = (routes: readonly { method: string; url: string }[]): Route[] =>
  routes.map(({ method, url }) => ({
    method,
    name: `${method} ${url}`,
    url: url
      .replace(':taskId(^[^:]+)', 't1')
      .replaceAll('::', ':')
      .replace(':id', 'c1')
      .replace('*', 'a.txt'),
  }))

async function aConfiguredHost() {
  const host = await startHost()
  host.standby()
  host.machine.take({ runId: 'run-1', generation: 1, turnBearerToken: TOKEN })
  const reached = () => {
    throw new Error('reached')
  }
  host.machine.ready(new Proxy({ runId: 'run-1' } as RunSession, { get: reached }))
  await host.app.ready()
  return { ...host, routes: filledIn(host.routes) }
}

const CREDENTIALS: [string, string | undefined][] = [
  ['without a credential', undefined],
  ['with a wrong one', `Bearer ${'B'.repeat(43)}`],
  ["with another run's", `Bearer ${`${TOKEN.slice(0, 42)}B`}`],
  ['with a truncated one', `Bearer ${TOKEN.slice(0, 42)}`],
  ['with a longer one', `Bearer ${TOKEN}A`],
  ['with an empty one', 'Bearer '],
  ['under another scheme', `Basic ${TOKEN}`],
  ['with the instance id', `Bearer ${INSTANCE}`],
]

it('knows all of the routes that it guards', async () => {
  const { routes } = await aConfiguredHost()

  const names = routes.map(({ name }) => name)
  expect(names.length).toBeGreaterThan(20)
  for (const expected of [
    'GET /events',
    'POST /decisions',
    'PUT /session',
    'GET /workspace',
    'PUT /commands/:id',
  ]) {
    expect(names).toContain(expected)
  }
  expect(names.some((name) => name.includes('message::stream'))).toBe(true)
  expect(names.some((name) => name.includes('::subscribe'))).toBe(true)
})

for (const [what, authorization] of CREDENTIALS) {
  it(`answers 401 on every route but the open ones ${what}`, async () => {
    const { app, routes } = await aConfiguredHost()

    for (const { method, url, name } of routes) {
      if (OPEN.has(name)) continue
      const headers = { ...(authorization !== undefined && { authorization }), 'a2a-version': '1.0' }
      const reply = await app.inject({ method: method as 'GET', url, headers })
      expect(reply.statusCode, name).toBe(401)
      expect(reply.headers['www-authenticate'], name).toBe('Bearer')
    }
  })
}

it('lets the right bearer through on every one of them', async () => {
  const { app, routes, outbox } = await aConfiguredHost()
  outbox.close()

  for (const { method, url, name } of routes) {
    if (OPEN.has(name)) continue
    const headers = { authorization: `Bearer ${TOKEN}`, 'a2a-version': '1.0' }
    const reply = await app.inject({ method: method as 'GET', url, headers })
    expect(reply.statusCode, `${name}: ${reply.body}`).not.toBe(401)
  }
})

it('answers 503 on every guarded route before it is configured, whatever the credential', async () => {
  const { app, machine, standby, routes } = await startHost()
  standby()
  await app.ready()

  for (const { method, url, name } of filledIn(routes)) {
    if (OPEN.has(name)) continue
    const reply = await app.inject({
      method: method as 'GET',
      url,
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    expect(reply.statusCode, name).toBe(503)
  }
  expect(machine.status.state).toBe('standby')
})

it('answers 404 to routes that look like its own', async () => {
  const { app } = await aConfiguredHost()

  for (const url of [
    '/a2a/agent/v1/messageX',
    '/a2a/agent/v1/message:streamX',
    '/tenant/a2a/agent/v1/tasks',
    '/configure/',
  ]) {
    const headers = { authorization: `Bearer ${TOKEN}`, 'a2a-version': '1.0' }
    const reply = await app.inject({ method: 'POST', url, headers })
    expect(reply.statusCode, url).toBe(404)
  }
})
