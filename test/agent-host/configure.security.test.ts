import { createHash, createHmac, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import { SignJWT } from 'jose'
import { describe, expect, it } from 'vitest'
import type { ConfigureRequestInput } from '../../contracts/configure.ts'
import { aConfiguration, INSTANCE, jwkOf, keyPair, startHost } from './host-rig.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const now = () => Math.floor(Date.now() / 1000)

type Forgery = {
  aud?: string
  sub?: string
  iat?: number
  exp?: number
  body?: string
  kid?: string
  alg?: string
}

function sign(key: KeyObject, body: string, change: Forgery = {}): Promise<string> {
  return new SignJWT({ body_sha256: sha256(change.body ?? body) })
    .setProtectedHeader({ alg: change.alg ?? 'EdDSA', kid: change.kid ?? 'k1' })
    .setAudience(change.aud ?? INSTANCE)
    .setSubject(change.sub ?? 'run-1')
    .setIssuedAt(change.iat ?? now())
    .setExpirationTime(change.exp ?? (change.iat ?? now()) + 60)
    .sign(key)
}

const configure = (app: FastifyInstance, ticket: string, body: string) =>
  app.inject({
    method: 'POST',
    url: '/configure',
    headers: { authorization: `Bearer ${ticket}`, 'content-type': 'application/json' },
    payload: body,
  })

const bodyOf = (change: Partial<ConfigureRequestInput> = {}) => JSON.stringify(aConfiguration(change))

it('takes a ticket for this instance, this run and exactly this body', async () => {
  const { app, standby, privateKey } = await startHost()
  standby()
  const body = bodyOf()

  const reply = await configure(app, await sign(privateKey, body), body)

  expect(reply.statusCode).toBe(200)
  expect(reply.json()).toEqual({ configured: true, runId: 'run-1' })
})

describe('refuses with 401, and stays in standby for the true caller,', () => {
  const forgeries: [string, (key: KeyObject, body: string) => Promise<string>][] = [
    [
      'a ticket for another instance',
      (key, body) => sign(key, body, { aud: 'b2f3ed54-6a0c-4e0b-9d0f-0f0f0f0f0f0f' }),
    ],
    ['a ticket for another run', (key, body) => sign(key, body, { sub: 'run-2' })],
    ['a ticket for another body', (key, body) => sign(key, body, { body: `${body} ` })],
    [
      'a ticket that is expired beyond the leeway',
      (key, body) => sign(key, body, { iat: now() - 200, exp: now() - 140 }),
    ],
    ['a ticket from the future beyond the leeway', (key, body) => sign(key, body, { iat: now() + 200 })],
    ['a ticket that lives longer than tickets do', (key, body) => sign(key, body, { exp: now() + 3600 })],
    ['a ticket under another key with the same kid', (_key, body) => sign(keyPair(), body)],
    ['a ticket under an unknown kid', (key, body) => sign(key, body, { kid: 'k9' })],
    ['no ticket at all', async () => ''],
    ['a ticket without a signature', async (key, body) => (await sign(key, body)).replace(/\.[^.]*$/, '.')],
  ]
  for (const [what, forge] of forgeries) {
    it(what, async () => {
      const { app, standby, privateKey, machine } = await startHost()
      standby()
      const body = bodyOf()

      const forged = await configure(app, await forge(privateKey, body), body)
      const state = machine.status.state
      const genuine = await configure(app, await sign(privateKey, body), body)

      expect(forged.statusCode).toBe(401)
      expect(forged.json()).toMatchObject({ code: 'unauthenticated' })
      expect(state).toBe('standby')
      expect(genuine.statusCode).toBe(200)
    })
  }

  it('algorithm confusion: "none", and an HMAC with the public key', async () => {
    const { app, standby, machine, jwksFile } = await startHost()
    standby()
    const body = bodyOf()
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const claims = encode({
      aud: INSTANCE,
      sub: 'run-1',
      iat: now(),
      exp: now() + 60,
      body_sha256: sha256(body),
    })
    const publicKey = JSON.parse(readFileSync(jwksFile, 'utf8')).keys[0].x
    const hmacInput = `${encode({ alg: 'HS256', kid: 'k1' })}.${claims}`
    const hmac = createHmac('sha256', Buffer.from(publicKey, 'base64url'))
      .update(hmacInput)
      .digest('base64url')

    const none = await configure(app, `${encode({ alg: 'none', kid: 'k1' })}.${claims}.`, body)
    const confused = await configure(app, `${hmacInput}.${hmac}`, body)

    expect([none.statusCode, confused.statusCode]).toEqual([401, 401])
    expect(machine.status.state).toBe('standby')
  })
})

it('judges the ticket before it looks at the body', async () => {
  const { app, standby, privateKey } = await startHost()
  standby()

  const unsigned = await configure(app, 'nonsense', '{ not json')
  const signed = await configure(app, await sign(privateKey, '{ not json'), '{ not json')

  expect(unsigned.statusCode).toBe(401)
  expect(signed.statusCode).toBe(400)
})

it('names every field at fault, a missing run among them, and is not spent by it', async () => {
  const { app, standby, privateKey, machine } = await startHost()
  standby()
  const { runId: _missing, ...rest } = aConfiguration()
  const body = JSON.stringify({ ...rest, generation: 0, surprise: 1 })

  const reply = await configure(app, await sign(privateKey, body), body)

  expect(reply.statusCode).toBe(400)
  const fields = reply.json().errors.map(({ field }: { field: string }) => field)
  expect(fields).toEqual(expect.arrayContaining(['runId', 'generation', 'surprise']))
  expect(machine.status.state).toBe('standby')
})

it('accepts a clock that is a minute off', async () => {
  const { app, standby, privateKey } = await startHost({ now: () => new Date(Date.now() + 55_000) })
  standby()
  const body = bodyOf()

  const reply = await configure(app, await sign(privateKey, body), body)

  expect(reply.statusCode).toBe(200)
})

it('reads its keys anew for every ticket, so that a rotation needs no restart', async () => {
  const { app, standby, writeKeys, privateKey } = await startHost()
  standby()
  const next = keyPair()
  const body = bodyOf()
  const before = await configure(app, await sign(next, body, { kid: 'k2' }), body)

  writeKeys([await jwkOf(privateKey, 'k1'), await jwkOf(next, 'k2')])
  const after = await configure(app, await sign(next, body, { kid: 'k2' }), body)

  expect([before.statusCode, after.statusCode]).toEqual([401, 200])
})

it('lets exactly one of many concurrent calls win and tells the others which run holds it', async () => {
  const { app, standby, privateKey } = await startHost()
  standby()
  const bodies = Array.from({ length: 10 }, (_, i) => bodyOf({ runId: `run-${i}` }))

  const replies = await Promise.all(
    bodies.map(async (body, i) => configure(app, await sign(privateKey, body, { sub: `run-${i}` }), body)),
  )

  const winners = replies.filter(({ statusCode }) => statusCode === 200)
  const losers = replies.filter(({ statusCode }) => statusCode === 409)
  expect([winners.length, losers.length]).toEqual([1, 9])
  const { runId } = winners[0]!.json()
  for (const loser of losers) expect(loser.json()).toMatchObject({ runId, generation: 1 })
})

it('tells a lost reply from a foreign configuration', async () => {
  const { app, standby, privateKey } = await startHost()
  standby()
  const body = bodyOf()
  await configure(app, await sign(privateKey, body), body)

  const again = await configure(app, await sign(privateKey, body), body)

  expect(again.statusCode).toBe(409)
  expect(again.json()).toEqual({ state: 'ready', runId: 'run-1', generation: 1 })
})

it('is spent by a setup that fails', async () => {
  const { app, standby, privateKey, machine } = await startHost({
    setUp: async () => {
      throw new Error('the agent did not start')
    },
  })
  standby()
  const body = bodyOf()

  const first = await configure(app, await sign(privateKey, body), body)
  const second = await configure(app, await sign(privateKey, body), body)
  const health = await app.inject({ url: '/healthz' })

  expect(first.statusCode).toBe(422)
  expect(first.json()).toMatchObject({ code: 'configure_failed' })
  expect(second.statusCode).toBe(409)
  expect(machine.status.state).toBe('failed')
  expect(health.statusCode).toBe(503)
})

it('answers 413 to a body beyond the limit', async () => {
  const { app, standby, privateKey } = await startHost()
  standby()
  const body = bodyOf({ userId: 'u'.repeat(9_000_000) })

  const reply = await configure(app, await sign(privateKey, body), body)

  expect(reply.statusCode).toBe(413)
})
