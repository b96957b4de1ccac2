import { expect, test } from 'vitest'
import { generateApiKey, hashApiKey } from '../../runtime/api/http/api-key.ts'
import { bearer, startApp } from './harness.ts'

const ask = async (authorization: string | undefined) => {
  const { app, keys } = startApp()
  const value = authorization?.replace('KEY', keys.ada)
  return app.inject({ url: '/api/runs', headers: value === undefined ? {} : { authorization: value } })
}

test.for(['Bearer KEY', 'bearer KEY', 'BEARER KEY', 'Bearer  KEY', 'Bearer KEY '])(
  '%j is taken',
  async (header) => {
    expect((await ask(header)).statusCode).toBe(200)
  },
)

test.for([undefined, 'Basic KEY', 'BearerKEY', 'KEY'])('%j gets a bare challenge', async (header) => {
  const answer = await ask(header)
  expect(answer.statusCode).toBe(401)
  expect(answer.headers['www-authenticate']).toBe('Bearer realm="agentweaver"')
  expect(answer.json()).toMatchObject({ code: 'unauthenticated', status: 401 })
})

test.for(['Bearer', 'Bearer ', 'Bearer KEY KEY', 'Bearer a,b', 'Bearer "KEY"', 'Bearer KEY; x'])(
  '%j is malformed',
  async (header) => {
    const answer = await ask(header)
    expect(answer.statusCode).toBe(400)
    expect(answer.headers['www-authenticate']).toContain('error="invalid_request"')
    expect(answer.json().errors).toEqual([{ field: 'authorization', message: expect.any(String) }])
  },
)

test.for(['Bearer KEYx', 'Bearer xKEY', 'Bearer abc', `Bearer ${generateApiKey()}`])(
  '%j is no valid key',
  async (header) => {
    const answer = await ask(header)
    expect(answer.statusCode).toBe(401)
    expect(answer.headers['www-authenticate']).toContain('error="invalid_token"')
  },
)

test('a key in the query opens nothing', async () => {
  const { app, keys } = startApp()
  const answer = await app.inject({ url: `/api/runs?access_token=${keys.ada}&key=${keys.ada}` })
  expect(answer.statusCode).toBe(401)
})

test('the key is asked for before the body is read', async () => {
  const { app } = startApp()
  const headers = { 'content-type': 'application/json' }
  const answer = await app.inject({ method: 'POST', url: '/api/runs', headers, body: '{ not json' })
  expect(answer.statusCode).toBe(401)
})

test('a key has 256 random bits, and the store knows only its hash', async () => {
  const { keys, store } = startApp()
  expect(keys.ada).toMatch(/^awk_[A-Za-z0-9_-]{43}$/)
  expect(new Set(Array.from({ length: 100 }, generateApiKey)).size).toBe(100)
  const rows = JSON.stringify([...store.keys.values()])
  expect(rows).toContain(hashApiKey(keys.ada))
  expect(rows).not.toContain(keys.ada)
})

test('no line of the log has a key in it', async () => {
  const { app, keys, lines } = startApp()
  await app.inject({ url: '/api/runs', headers: bearer(keys.ada) })
  await app.inject({ url: `/api/runs?key=${keys.ada}`, headers: bearer(`${keys.ada}x`) })
  expect(lines.length).toBeGreaterThan(0)
  expect(lines.join('\n')).not.toContain(keys.ada)
})
