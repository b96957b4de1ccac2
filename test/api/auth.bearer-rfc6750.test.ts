import { expect, test } from 'vitest'
import { generateApiKey, hashApiKey } from '../../runtime/api/http/api-key.ts'
import { bearer, startApp } from './harness.ts'

const ask = async (authorization: string | undefined) => {
  const { app, keys } = startApp()
  const value = authorization?.replace('KEY', keys.ada)
  return app.inject({ url: '/api/runs', headers: value === undefined ? {} : { authorization: value } })
}

test.for(['Bearer KEY', 'bearer KEY', 'BEARER KEY', 'Bearer  KEY', 'Bearer KEY '])(
  'accepts %j',
  async (header) => {
    expect((await ask(header)).statusCode).toBe(200)
  },
)

test.for([undefined, 'Basic KEY', 'BearerKEY', 'KEY'])('returns a bare challenge for %j', async (header) => {
  const answer = await ask(header)
  expect(answer.statusCode).toBe(401)
  expect(answer.headers['www-authenticate']).toBe('Bearer realm="agentweaver"')
  expect(answer.json()).toMatchObject({ code: 'unauthenticated', status: 401 })
})

test.for(['Bearer', 'Bearer ', 'Bearer KEY KEY', 'Bearer a,b', 'Bearer "KEY"', 'Bearer KEY; x'])(
  'returns 400 for the malformed header %j',
  async (header) => {
    const answer = await ask(header)
    expect(answer.statusCode).toBe(400)
    expect(answer.headers['www-authenticate']).toContain('error="invalid_request"')
    expect(answer.json().errors).toEqual([{ field: 'authorization', message: expect.any(String) }])
  },
)

test.for(['Bearer KEYx', 'Bearer xKEY', 'Bearer abc', `Bearer ${generateApiKey()}`])(
  'returns 401 for the unknown key %j',
  async (header) => {
    const answer = await ask(header)
    expect(answer.statusCode).toBe(401)
    expect(answer.headers['www-authenticate']).toContain('error="invalid_token"')
  },
)

test('does not accept a key in the query', async () => {
  const { app, keys } = startApp()
  const answer = await app.inject({ url: `/api/runs?access_token=${keys.ada}&key=${keys.ada}` })
  expect(answer.statusCode).toBe(401)
})

test('checks the key before it reads the body', async () => {
  const { app } = startApp()
  const headers = { 'content-type': 'application/json' }
  const answer = await app.inject({ method: 'POST', url: '/api/runs', headers, body: '{ not json' })
  expect(answer.statusCode).toBe(401)
})

test('a key has 256 random bits, and the store has only its hash', async () => {
  const { keys, store } = startApp()
  expect(keys.ada).toMatch(/^awk_[A-Za-z0-9_-]{43}$/)
  expect(new Set(Array.from({ length: 100 }, generateApiKey)).size).toBe(100)
  const rows = JSON.stringify([...store.keys.values()])
  expect(rows).toContain(hashApiKey(keys.ada))
  expect(rows).not.toContain(keys.ada)
})

test('the log contains no key', async () => {
  const { app, keys, lines } = startApp()
  await app.inject({ url: '/api/runs', headers: bearer(keys.ada) })
  await app.inject({ url: `/api/runs?key=${keys.ada}`, headers: bearer(`${keys.ada}x`) })
  expect(lines.length).toBeGreaterThan(0)
  expect(lines.join('\n')).not.toContain(keys.ada)
})
